// Package cachecontrol determines whether a shared cache may store a response (RFC 9111 section 3).
//
// SharingOf reads Cache-Control, Expires and the fields that apply to certain caches only (RFC 9213).
// It errs on the side of Allowed: the caller must not add anything to such a response that belongs
// to one client. The functions have no state, so any goroutine may call them.
package cachecontrol
