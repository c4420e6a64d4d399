//go:build linux

// Package register judges whether every key of a test behaved as one register,
// whatever node, app and epoch served it: whether its history is linearizable.
//
// Values are unique, so there is a short way to tell. What was done with one
// value, its write and its reads, must follow each other without another value
// in between. That fails for two values just if something of the first had ended
// before something of the second began, and the other way round; longer circles
// always hold such a pair. (P. Gibbons and E. Korach, Testing shared memories,
// SIAM J. Comput. 26, 1997: the case of known reads-from.) So a contradiction is
// at most six operations, and Check prints them.
//
// A checker is not its own witness: what the short way accepts is searched through
// by porcupine, and so is each contradiction by itself; if the two differ, the
// check has failed. So it has if the search takes too long.
//
// With the log of the store, each write has the moment at which it took effect, or
// never did. Then it is judged at that moment, and nothing is unknown any more.
package linear
