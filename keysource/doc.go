// Package keysource says where the keys of requests are.
//
// A source is one place in a request, in the words of the configuration:
//
//	header:NAME   a header line; NAME is a token of RFC 9110
//	path:N        a segment of the path, from 1 to 64, percent-decoded
//	query:NAME    a parameter of the query
//	cookie:NAME   a cookie; NAME is a token
//	jwt:CLAIM     a claim of the bearer token, which nobody verifies here
//	host          the host without its port, in small letters
//	ip            the client's address
//	mint          no place: a fresh key for each request, on the routes that create
//	              what is reached by it from then on; alone there
//
// A Table has the sources of all requests, and those of the requests below a path
// prefix. What the configuration accepts by this package is what the proxy runs:
// there is no other reader of these words.
//
// The package is pure. A Table never changes once made, so any number of goroutines
// may read it; choosing sources and reading paths allocates nothing when the memory
// that is handed in suffices.
package keysource
