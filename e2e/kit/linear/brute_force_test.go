//go:build linux

package linear_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"shardway/e2e/kit/linear"
)

// linearizable tries every order. It executes the remaining operations one by one, each
// before all operations that were called after its return, and unknown writes optionally.
func linearizable(ops []linear.Op, value string) bool {
	due := false
	end := int64(math.MaxInt64)
	for _, op := range ops {
		if op.Outcome == linear.Known {
			due, end = true, min(end, op.Return)
		}
	}
	if !due {
		return true
	}
	for i, op := range ops {
		if op.Call > end || op.Outcome == linear.Refused || !op.Write && (op.Outcome == linear.Unknown || op.Value != value) {
			continue
		}
		next := value
		if op.Write {
			next = op.Value
		}
		rest := append(append([]linear.Op{}, ops[:i]...), ops[i+1:]...)
		if linearizable(rest, next) {
			return true
		}
	}
	return false
}

// decode makes a small history from bytes, three per operation. Many of these histories
// are linearizable, and many are not.
func decode(b []byte) []linear.Op {
	const most = 7
	var ops []linear.Op
	written := make(map[string]bool)
	for ; len(b) >= 3 && len(ops) < most; b = b[3:] {
		value := string(rune('a' + b[0]>>1&3))
		call := int64(b[1] % 16)
		op := linear.Op{Key: key, Value: value, Write: b[0]&1 == 0, Call: call, Return: call + int64(b[2]%8), Outcome: linear.Known}
		switch b[0] >> 3 & 7 {
		case 0:
			op.Outcome = linear.Unknown
		case 1:
			op.Outcome = linear.Refused
		case 2:
			if !op.Write {
				op.Value = ""
			}
		}
		if op.Write && written[value] {
			op.Write = false
		}
		written[value] = written[value] || op.Write
		ops = append(ops, op)
	}
	return ops
}

func agree(t *testing.T, b []byte) (ok bool) {
	t.Helper()
	ops := decode(b)
	err, want := linear.Check(ops, linear.Options{}), linearizable(ops, "")
	if (err == nil) != want || err != nil && strings.Contains(err.Error(), "search") {
		t.Fatalf("Check = %v, the search of all orders returned %t\n%v", err, want, ops)
	}
	return want
}

func TestCheckAgreesWithEveryOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	count := make(map[bool]int)
	for range 30_000 {
		b := make([]byte, 3*(1+r.IntN(7)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		count[agree(t, b)]++
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("%d histories were linearizable and %d were not: one kind is hardly tested", count[true], count[false])
	}
}

func FuzzCheckAgreesWithEveryOrder(f *testing.F) {
	f.Add([]byte{0xf8, 0, 5, 0xf9, 6, 5})
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}
