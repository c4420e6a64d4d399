// Package topk estimates which keys occur most often in a stream, in constant memory.
//
// Sketch implements the space-saving algorithm (Metwally, Agrawal, El Abbadi, 2005), with counts
// that fade over time. Callers must lock a Sketch that several goroutines use.
package topk
