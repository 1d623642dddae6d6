# The sandbox provider's page.
sandbox-title = Pay ¥{ $amount }
sandbox-note = Sandbox:
sandbox-note-more = no real money moves here; it is for trying how a payment can go.
sandbox-payment = Payment
sandbox-back = Don't pay, back to the order
sandbox-approve = Pay
sandbox-approve-why = The payment succeeds; the shop is told once.
sandbox-decline = Decline
sandbox-decline-why = The bank says no; the order keeps waiting.
sandbox-twice = Pay and tell twice
sandbox-twice-why = A repeated notice; the order changes once.
sandbox-late = Pay too late
sandbox-late-why = The order times out first, then the money goes back.
sandbox-wrong-amount = Another amount
sandbox-wrong-amount-why = The notice names a wrong amount; the shop should refuse it.
