"""Circuits of published papers, as functions for the field `model`, and their experiments as files NAME.yaml.

Circuit parameters are angles in radians, as in the papers. A learning rate or a standard deviation of a paper is
therefore the value of `learning_rate` or `initialization_scale`.
"""
