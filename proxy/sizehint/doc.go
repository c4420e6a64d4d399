// Package sizehint predicts from the last response to a request path whether the next one is large.
//
// A prediction is only a guess: a wrong one costs some time and nothing else. Therefore a Predictor
// has a fixed size, paths share its slots, and its methods are lock-free. Any number of goroutines
// may use it after SetSeed.
package sizehint
