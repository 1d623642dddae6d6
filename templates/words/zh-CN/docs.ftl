# 接口说明。
docs-title = 接口
docs-intro = 程序可以调用的全部接口。/api 下的回答都是 JSON：成功时带 data，否则是一句话和一个 code。问题得到“不行”的回答时状态码是 200；只有请求本身失败时才是别的状态码。
docs-file = openapi.json
docs-shared = /api 下的每个调用还可能得到 MALFORMED（400）、INTERNAL（500）或 BUSY（503，带 Retry-After）；带请求体的还可能得到 TOO_LARGE（413）或 UNSUPPORTED_MEDIA_TYPE（415）。名字后面的问号表示可以省略；名字前面的问号表示写在查询串里。
docs-shapes = 回答的结构
docs-anyone = 任何人
docs-user = 登录后
docs-admin = 管理员
docs-ticket = 下单人、管理员，或持有凭证的人
docs-provider = 支付方
