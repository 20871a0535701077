"""`python -m launch doctor`: what this machine lacks to serve a release, and what to do about it.

Nothing is started and no weight is read. It also runs inside the Triton image, which holds no frontend.
"""
