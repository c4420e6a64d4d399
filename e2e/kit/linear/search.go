//go:build linux

package linear

import (
	"errors"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	errIllegal = errors.New("the search finds a contradiction that the short method does not")
	errTimeout = errors.New("the search timed out, so the result is unknown")
)

// search checks the operations with porcupine.
func (c *checker) search(ops []settled) error {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{Input: &op.Op, Call: op.from, Return: op.until}
	}
	timeout := time.Until(c.deadline)
	if timeout <= 0 { // porcupine interprets this as no timeout
		return errTimeout
	}
	switch porcupine.CheckOperationsTimeout(model(), history, timeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return errIllegal
	case porcupine.Unknown:
	}
	return errTimeout
}

// model is a register that is initially empty.
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
