# The frame around every page.
skip = Skip to content
nav-main = Main
nav-sales = Sales
nav-orders = Orders
nav-admin = Control
nav-account = Me
log-in = Log in
log-out = Log out
other-lang = 中文
other-lang-label = 中文
zone-note = All times are { $zone }, by the clock of the server.
zone-china = China Standard Time (Asia/Shanghai)
theme-nav = Appearance
theme-auto = System
theme-light = Light
theme-dark = Dark
still = As it was at { $time }; reload for the latest.
live = Live
tell-me = Tell me in the background too
offline = Connection lost, trying again; these numbers are { $n } s old.
offline-plain = Connection lost, trying again.
notice-sessions = We cannot check your login just now and show this page as to a visitor; reload in a moment, there is no need to log in again.
optional = optional
form-some = { $plural ->
    [one] { $count } thing to mend; what you typed is kept.
   *[other] { $count } things to mend; what you typed is kept.
}
form-password-again = Please type the password again.
date-time = { $day } { $month }, { $clock }
date-time-year = { $day } { $month } { $year }, { $clock }
month-1 = Jan
month-2 = Feb
month-3 = Mar
month-4 = Apr
month-5 = May
month-6 = Jun
month-7 = Jul
month-8 = Aug
month-9 = Sep
month-10 = Oct
month-11 = Nov
month-12 = Dec
