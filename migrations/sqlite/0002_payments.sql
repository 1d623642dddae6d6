-- Payments that were started, codes that are nobody else's, and the sandbox provider's own books. The same tables and columns
-- as in ../postgres.

-- No two orders with one code; a voided code leaves the column.
CREATE UNIQUE INDEX orders_coupon ON orders (coupon_code) WHERE coupon_code IS NOT NULL;

-- Where a buyer pays an order: a second click leads to the same payment.
CREATE TABLE payment_link (
    order_id   BIGINT PRIMARY KEY,
    payment_id TEXT   NOT NULL,
    pay_url    TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- From here on: the sandbox, which stands for another company. Nothing of the shop reads these tables.
CREATE TABLE sandbox_payment (
    id           TEXT   PRIMARY KEY,
    order_id     BIGINT NOT NULL UNIQUE, -- asked again for the same order, it answers the same payment
    amount       BIGINT NOT NULL,
    callback_url TEXT   NOT NULL,
    return_url   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL
);

-- Money in and out. A transaction comes in once; it goes out once for each key, because that is what a key means.
CREATE TABLE sandbox_entry (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           TEXT   NOT NULL CHECK (kind IN ('paid', 'refunded')),
    entry_key      TEXT   NOT NULL,
    transaction_id TEXT   NOT NULL,
    order_id       BIGINT NOT NULL,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    created_at     BIGINT NOT NULL,
    UNIQUE (kind, entry_key)
);
CREATE INDEX sandbox_entry_by_transaction ON sandbox_entry (transaction_id);

-- Notices on their way; kept until the shop has answered.
CREATE TABLE sandbox_letter (
    id           TEXT   PRIMARY KEY,
    callback_url TEXT   NOT NULL,
    body         TEXT   NOT NULL,
    attempts     BIGINT NOT NULL DEFAULT 0,
    next_at      BIGINT NOT NULL,
    done_at      BIGINT
);
CREATE INDEX sandbox_letter_due ON sandbox_letter (next_at) WHERE done_at IS NULL;
