"""KFP component definitions: typed signatures whose bodies call the step implementations."""
