"""The components: a typed signature each, whose body calls its step."""
