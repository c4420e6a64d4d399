//go:build linux

package linear

import (
	"errors"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	errIllegal = errors.New("the search finds a contradiction that the short way does not")
	errTimeout = errors.New("the search did not come to an end, so nothing is known")
)

// search asks porcupine.
func (c *checker) search(ops []settled) error {
	history := make([]porcupine.Operation, len(ops))
	for i, s := range ops {
		history[i] = porcupine.Operation{Input: &s.Op, Call: s.from, Return: s.until}
	}
	left := time.Until(c.deadline)
	if left <= 0 { // which porcupine takes for no bound at all
		return errTimeout
	}
	switch porcupine.CheckOperationsTimeout(model(), history, left) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return errIllegal
	case porcupine.Unknown:
	}
	return errTimeout
}

// model is a register that is empty at first.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			op, ok := input.(*Op)
			if !ok {
				return false, state
			}
			if op.Write {
				return true, op.Value
			}
			return op.Value == state, state
		},
	}
}
