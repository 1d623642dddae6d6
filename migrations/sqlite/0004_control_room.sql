-- What the control room counts, lists and reports. The same tables and columns as in ../postgres.

-- Every list and every count of one sale's orders, answered from the index alone: never a scan of the table.
CREATE INDEX orders_by_voucher ON orders (voucher_id, id, status, close_reason, live);
CREATE INDEX outbox_open ON outbox (id) WHERE done_at IS NULL;

-- Units put on sale, or taken off it, after the sale was made: when a sale was sold out depends on when they came.
CREATE TABLE stock_change (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    voucher_id BIGINT NOT NULL,
    delta      BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX stock_change_by_voucher ON stock_change (voucher_id);

-- What Redis counted of a sale that is over; its keys go away a week later.
CREATE TABLE sale_report (
    voucher_id  INTEGER PRIMARY KEY REFERENCES flash_sale (voucher_id),
    refused     TEXT   NOT NULL, -- JSON: code → how often
    turned_away BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
