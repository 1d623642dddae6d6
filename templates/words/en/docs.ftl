# The description of the API.
docs-title = API
docs-intro = Everything that a program may call. Answers under /api are JSON: success with data, or a sentence with a code. A question that is answered with "no" has status 200; only a request that failed has another.
docs-file = openapi.json
docs-shared = Every call under /api may also be refused with MALFORMED (400), INTERNAL (500) or BUSY (503, with Retry-After), and one with a body with TOO_LARGE (413) or UNSUPPORTED_MEDIA_TYPE (415). A question mark after a name says that it may be left out; one before it, that it stands in the query.
docs-shapes = Shapes of answers
docs-anyone = anybody
docs-user = logged in
docs-admin = admin
docs-ticket = its owner, an admin, or whoever has its ticket
docs-provider = the payment provider
