"""Model registry: versions of models, the gate that promotes them, and names such as digits@champion."""
