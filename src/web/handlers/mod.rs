//! One file a part of the shop: a request becomes a call of a service, its answer JSON or a page.

pub mod account;
pub mod admin;
pub mod admin_lists;
pub mod callback;
pub mod captcha;
pub mod control;
pub mod desk;
pub mod desk_lists;
pub mod desk_live;
pub mod docs;
pub mod front;
pub mod order_life;
pub mod orders;
pub mod purchase;
pub mod reports;
pub mod sandbox;
pub mod shops;
pub mod sign_in;
pub mod users;
pub mod voucher_fields;
pub mod vouchers;
