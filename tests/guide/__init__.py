"""The guide is run as a newcomer would: from an empty folder, with the commands that are printed there."""
