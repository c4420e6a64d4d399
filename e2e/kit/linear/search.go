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

// search checks the operations with porcupine, which tries all orders. It returns nil if the
// operations are linearizable, errIllegal if they are not, and errTimeout if the deadline of the
// check has passed.
func (c *checker) search(ops []timedOp) error {
	operations := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		operations[i] = porcupine.Operation{Input: &op.Op, Call: op.earliest, Return: op.latest}
	}
	timeout := time.Until(c.deadline)
	if timeout <= 0 { // porcupine interprets this as no timeout
		return errTimeout
	}
	switch porcupine.CheckOperationsTimeout(registerModel(), operations, timeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return errIllegal
	case porcupine.Unknown:
	}
	return errTimeout
}

// registerModel returns the model of a register that is initially empty.
func registerModel() porcupine.Model {
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
