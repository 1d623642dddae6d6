# The sandbox provider's page.
sandbox-title = 付款 ¥{ $amount }
sandbox-note = 沙箱：
sandbox-note-more = 这里不会动真钱，只用来试付款的各种结果。
sandbox-payment = 付款号
sandbox-back = 不付了，回订单
sandbox-approve = 付款
sandbox-approve-why = 付款成功，通知商家一次。
sandbox-decline = 拒绝
sandbox-decline-why = 银行拒绝，订单保持待付款。
sandbox-twice = 付款并通知两次
sandbox-twice-why = 重复通知，订单只变一次。
sandbox-late = 过期后才付款
sandbox-late-why = 订单先超时关闭，钱随后原路退回。
sandbox-wrong-amount = 金额不符
sandbox-wrong-amount-why = 通知里的金额不对，商家应当不认。
