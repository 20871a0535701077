"""From a SystemOne request to the tensors that the model step takes. No torch; nothing of the other rooms."""
