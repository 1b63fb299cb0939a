"""Google's client library: requests that are tried again, errors of one line."""
