"""What must hold in a simulated deployment, judged apart from the code that is to make it so."""
