// Package sizehint predicts from the last response to a request path whether the next one is large.
//
// A wrong prediction only costs some time, so a Predictor has a fixed size, lets paths share slots, and is
// lock-free. Any number of goroutines may use it after SetSeed.
package sizehint
