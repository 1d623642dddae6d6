-- The first schema. The same tables, columns and checks as in ../postgres; only keys and storage hints differ.
-- Times are milliseconds since 1970 (UTC), money is fen, flags are BOOLEAN, words are TEXT with a check.

CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    phone         TEXT    NOT NULL UNIQUE,
    nick_name     TEXT    NOT NULL,
    password_hash TEXT, -- none: logs in by code, or only through seeded sessions
    admin         BOOLEAN NOT NULL DEFAULT FALSE,
    disabled      BOOLEAN NOT NULL DEFAULT FALSE,
    credits       BIGINT  NOT NULL DEFAULT 0,
    created_at    BIGINT  NOT NULL
);

CREATE TABLE shop_type (
    id   INTEGER PRIMARY KEY,
    name TEXT   NOT NULL,
    icon TEXT   NOT NULL,
    sort BIGINT NOT NULL
);

INSERT INTO shop_type (id, name, icon, sort) VALUES
    (1, '美食', '/types/ms.png', 1),
    (2, 'KTV', '/types/KTV.png', 2),
    (3, '丽人·美发', '/types/lrmf.png', 3),
    (4, '健身运动', '/types/jsyd.png', 4),
    (5, '按摩·足疗', '/types/amzl.png', 5),
    (6, '美容SPA', '/types/spa.png', 6),
    (7, '亲子游乐', '/types/qzyl.png', 7),
    (8, '酒吧', '/types/jiuba.png', 8),
    (9, '轰趴馆', '/types/hpg.png', 9),
    (10, '美睫·美甲', '/types/mjmj.png', 10);

CREATE TABLE shop (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT   NOT NULL,
    type_id    BIGINT NOT NULL REFERENCES shop_type (id),
    images     TEXT   NOT NULL,
    area       TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    x          BIGINT NOT NULL, -- longitude in millionths of a degree
    y          BIGINT NOT NULL, -- latitude in millionths of a degree
    avg_price  BIGINT NOT NULL CHECK (avg_price >= 0),
    sold       BIGINT NOT NULL DEFAULT 0,
    comments   BIGINT NOT NULL DEFAULT 0,
    score      BIGINT NOT NULL CHECK (score BETWEEN 0 AND 50),
    open_hours TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX shop_by_type ON shop (type_id, id);

CREATE TABLE voucher (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    shop_id      BIGINT NOT NULL REFERENCES shop (id),
    title        TEXT   NOT NULL,
    sub_title    TEXT   NOT NULL,
    rules        TEXT   NOT NULL,
    pay_value    BIGINT NOT NULL CHECK (pay_value > 0),
    actual_value BIGINT NOT NULL CHECK (actual_value > 0),
    version      BIGINT NOT NULL DEFAULT 1,
    idem_key     TEXT   UNIQUE, -- a double submit finds the first one's row
    created_at   BIGINT NOT NULL
);
CREATE INDEX voucher_by_shop ON voucher (shop_id, id);

-- The scarce thing. No index on a column that a sale changes: the hot row's update touches one page.
CREATE TABLE flash_sale (
    voucher_id    INTEGER PRIMARY KEY REFERENCES voucher (id),
    stock_total   BIGINT  NOT NULL,
    stock_left    BIGINT  NOT NULL,
    epoch         BIGINT  NOT NULL DEFAULT 0,
    epoch_claimed BIGINT  NOT NULL DEFAULT 0,
    paused        BOOLEAN NOT NULL DEFAULT FALSE,
    captcha       BOOLEAN NOT NULL DEFAULT FALSE,
    begin_at      BIGINT  NOT NULL,
    end_at        BIGINT  NOT NULL,
    version       BIGINT  NOT NULL DEFAULT 1,
    CHECK (stock_left BETWEEN 0 AND stock_total),
    CHECK (epoch BETWEEN 0 AND epoch_claimed),
    CHECK (begin_at < end_at)
);
CREATE INDEX flash_sale_by_end ON flash_sale (end_at);

-- One row for each admitted id: its primary key makes the outcome unchangeable.
--
-- No references, because this is the hot path, and each stands somewhere cheaper:
-- to voucher and flash_sale, every order of a sale would take a share lock on the one row that all of them update; the
-- placing transaction ends with an update of that very row, finds nothing for an unknown voucher, and rolls back;
-- to users, every order would lock a row of its own there, which makes an insert on PostgreSQL 1.8 times as long (measured
-- with 60,000 users); the placing transaction asks once for all users of its batch, for less than half of that, and is
-- refused as a whole when one is unknown. Users are never deleted.
-- Either way the entry ends in the dead letters, and never as an order of nobody or of nothing.
CREATE TABLE orders (
    id           INTEGER PRIMARY KEY,
    user_id      BIGINT  NOT NULL,
    voucher_id   BIGINT  NOT NULL,
    status       TEXT    NOT NULL,
    live         BOOLEAN NOT NULL, -- it holds its unit: the one list that index, gate load and audit share
    version      BIGINT  NOT NULL DEFAULT 1,
    pay_amount   BIGINT  NOT NULL,
    epoch        BIGINT  NOT NULL,
    admitted_at  BIGINT  NOT NULL,
    created_at   BIGINT  NOT NULL,
    pay_before   BIGINT,
    paid_at      BIGINT,
    closed_at    BIGINT,
    refunded_at  BIGINT,
    close_reason TEXT,
    coupon_code  TEXT,
    CHECK (CASE status
        WHEN 'PENDING' THEN live AND pay_before IS NOT NULL
        WHEN 'PAID' THEN live AND paid_at IS NOT NULL
        WHEN 'REFUNDING' THEN live AND paid_at IS NOT NULL
        WHEN 'REFUNDED' THEN refunded_at IS NOT NULL -- live unless the unit was put back on sale
        WHEN 'CANCELLED' THEN NOT live AND closed_at IS NOT NULL AND close_reason IN ('USER', 'TIMEOUT')
        WHEN 'FAILED' THEN NOT live AND closed_at IS NOT NULL
            AND close_reason IN ('DUPLICATE', 'SOLD_OUT', 'LOST', 'DISCARDED')
        ELSE FALSE
    END)
);
CREATE UNIQUE INDEX orders_one_live ON orders (voucher_id, user_id) WHERE live;
CREATE INDEX orders_by_user ON orders (user_id, id);
CREATE INDEX orders_due ON orders (pay_before) WHERE status = 'PENDING';

CREATE TABLE payment (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    provider       TEXT   NOT NULL,
    transaction_id TEXT   NOT NULL,
    order_id       BIGINT NOT NULL, -- no reference: a notice may come before its order's row
    amount         BIGINT NOT NULL,
    state          TEXT   NOT NULL CHECK (state IN ('EARLY', 'APPLIED', 'REFUND_DUE', 'REFUNDED')),
    created_at     BIGINT NOT NULL,
    UNIQUE (provider, transaction_id)
);
CREATE INDEX payment_by_order ON payment (order_id);
CREATE UNIQUE INDEX payment_one_applied ON payment (order_id) WHERE state = 'APPLIED';
CREATE INDEX payment_early ON payment (id) WHERE state = 'EARLY';

CREATE TABLE refund (
    payment_id INTEGER PRIMARY KEY REFERENCES payment (id), -- one a payment
    idem_key   TEXT   NOT NULL UNIQUE,                      -- the same on every attempt
    amount     BIGINT NOT NULL CHECK (amount > 0),
    state      TEXT   NOT NULL CHECK (state IN ('DUE', 'DONE')),
    created_at BIGINT NOT NULL,
    done_at    BIGINT
);
CREATE INDEX refund_due ON refund (payment_id) WHERE state = 'DUE';

CREATE TABLE webhook_event (
    provider    TEXT   NOT NULL,
    event_id    TEXT   NOT NULL,
    body_digest TEXT   NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT   NOT NULL,
    dedupe_key TEXT   NOT NULL UNIQUE,
    voucher_id BIGINT, -- of a release: U is counted by it
    payload    TEXT   NOT NULL,
    attempts   BIGINT NOT NULL DEFAULT 0,
    next_at    BIGINT NOT NULL,
    done_at    BIGINT
);
CREATE INDEX outbox_due ON outbox (kind, next_at) WHERE done_at IS NULL;
CREATE INDEX outbox_open_by_voucher ON outbox (voucher_id) WHERE done_at IS NULL;

-- Unique by lane, stream id and content: a stream that was made again may repeat its ids with other entries.
CREATE TABLE dead_letter (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    lane       BIGINT NOT NULL,
    stream_id  TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    entry      TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    state      TEXT   NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'RETRIED', 'DISCARDED')),
    created_at BIGINT NOT NULL,
    closed_at  BIGINT,
    UNIQUE (lane, stream_id, digest)
);
CREATE INDEX dead_letter_open ON dead_letter (id) WHERE state = 'OPEN';

-- Blocks of the day's order sequence that somebody may use; day counts from 1970-01-01 (UTC).
CREATE TABLE id_block (
    day   BIGINT NOT NULL,
    first BIGINT NOT NULL,
    PRIMARY KEY (day, first)
);

CREATE TABLE audit_log (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    who          TEXT   NOT NULL,
    action       TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    before_value TEXT,
    after_value  TEXT,
    created_at   BIGINT NOT NULL
);

-- What is fixed for the life of the data, such as the number of lanes.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
