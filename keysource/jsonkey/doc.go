// Package jsonkey finds the key of a request in its JSON body.
//
// Find reads the value to which a JSON pointer (RFC 6901) refers. It accepts a document only if
// every parser reads the same value from it. Parsers differ in all of these cases, so Find returns
// an error for them:
//
//   - An object contains a member name twice, also in different spellings. Some parsers use the
//     first member, others use the last one.
//   - A name on the path differs from the pointer in upper and lower case only. Some parsers ignore
//     case.
//   - A string contains invalid UTF-8, half of a surrogate pair, or a name contains a NUL.
//   - The document is nested too deeply, begins with a byte order mark, or has trailing data.
//   - The key is a number that has a second common spelling, such as 1.0 or 1e3.
//
// To find duplicate names, Find needs up to 24 bytes for each member of an object and of the objects around it.
// An escaped name is decoded, so it needs its own length once more. All other documents need no memory of their
// size.
//
// The package is pure: it has no clock, lock, goroutine or I/O. Its functions are safe for
// concurrent use.
package jsonkey
