"""Files of other tables and directories become an append table of Paimon, without their rows being written anew."""
