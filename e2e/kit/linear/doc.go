//go:build linux

// Package linear checks whether every key of a test behaved as one register, independent
// of the nodes, apps and epochs that served it: whether its history is linearizable.
//
// Values are unique, which permits a short method. The operations on one value, its write
// and its reads, must follow each other without another value in between. Two values
// violate this exactly if some operation of the first had ended before some operation of
// the second began, and vice versa. Longer cycles always contain such a pair. (P. Gibbons
// and E. Korach, Testing shared memories, SIAM J. Comput. 26, 1997: the case of known
// reads-from.) So a contradiction has at most six operations, and Check prints them.
//
// The short method is verified: porcupine searches every history that the short method
// accepts, and every contradiction alone. The check fails if the two differ, or if the
// search takes too long.
//
// With the log of the store, it is known when each write took effect, or that it did not.
// Each write is then checked with that time, and no outcome is unknown.
package linear
