// Package headerrules contains rules that add, set and remove header fields of requests to the app and of
// its responses. It is pure.
//
// Package config parses Rules and validates them with Check. Package proxy compiles the rules of a route,
// from the general ones to those of the longest path prefix, into an Edit. An Edit does not change, so all
// goroutines may use it.
package headerrules
