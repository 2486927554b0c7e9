"""`ballast decide`: one line of loads in, one line of decisions out, with what is kept between lines."""
