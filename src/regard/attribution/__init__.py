"""Attribution: how much each output depends on each input, and which inputs each lookup reads."""
