//go:build linux

package linear_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/linear"
	"shardway/e2e/kit/store"
)

const key = "k"

type (
	ops = []linear.Op
	log = []store.Applied
)

func write(value string, call, ret int64) linear.Op {
	return linear.Op{Key: key, Write: true, Value: value, Call: call, Return: ret, Outcome: linear.Known, ID: "w-" + value}
}

func read(value string, call, ret int64) linear.Op {
	return linear.Op{Key: key, Value: value, Call: call, Return: ret, Outcome: linear.Known, ID: fmt.Sprintf("r-%d", call)}
}

func with(o linear.Outcome, op linear.Op) linear.Op {
	op.Outcome = o
	return op
}

func applied(value string, at int64) store.Applied {
	return store.Applied{Key: key, Value: value, At: at}
}

// The test plants one contradiction at a time. The error must contain its reason, and
// show only the operations of the contradiction.
func TestContradictionsAreFound(t *testing.T) {
	busy := []linear.Op{write("one", 0, 10), read("one", 20, 30), write("two", 40, 50), read("two", 60, 70)}
	const both = "before and after the other"
	applied12 := log{applied("one", 5), applied("two", 45)}
	lost := with(linear.Unknown, write("three", 80, 0))
	refused := with(linear.Refused, write("three", 80, 90))
	alien := write("alien", 1, 2)
	alien.Key = "other"
	for _, c := range []struct {
		name string
		ops  ops
		log  log
		why  string
		show string
	}{
		{"stale read", ops{read("one", 55, 58)}, nil, both, "w-one w-two r-55"},
		{"stale read of nothing", ops{read("", 15, 18)}, nil, both, "w-one r-15"},
		{"lost write", ops{write("three", 80, 90), read("two", 100, 110)}, nil, both, "w-two w-three r-100"},
		{"reads in two orders", ops{
			write("three", 80, 200), write("four", 80, 200), read("three", 100, 110), read("four", 120, 130), read("three", 140, 150),
		}, nil, both, "w-three w-four r-100 r-120 r-140"},
		{"swapped writes", ops{
			write("three", 80, 90), write("four", 100, 110), read("four", 120, 130), read("three", 140, 150),
		}, nil, both, "w-three w-four r-140"},
		{"read before the write", ops{read("three", 80, 85), write("three", 90, 100)}, nil, "before it was written", "r-80 w-three"},
		{"refused write that was read", ops{refused, read("three", 100, 110)}, nil, "was refused", "w-three r-100"},
		{"value that was never written", ops{read("ghost", 80, 90)}, nil, "no operation wrote", "r-80"},
		{"value of another key", ops{alien, read("alien", 80, 90)}, nil, `written to key "other"`, "w-alien r-80"},
		{"unknown write that comes and goes", ops{lost, read("three", 90, 95), read("two", 100, 105)}, nil, both, "w-two w-three r-90 r-100"},
		{"unknown write that the store never had", ops{lost, read("three", 90, 95)}, applied12, "never reached the store", "w-three r-90"},
		{"unknown write that was applied and lost", ops{lost, read("two", 100, 105)}, append(applied12, applied("three", 85)), both, "w-two w-three r-100"},
		{"applied twice", nil, append(applied12, applied("one", 6)), "applied it twice", "w-one"},
		{"response without an applied write", nil, applied12[:1], "never applied it", "w-two"},
		{"refused and applied", ops{refused}, append(applied12, applied("three", 85)), "was refused, but", "w-three"},
		{"applied before its call", nil, log{applied("one", 5), applied("two", 39)}, "outside of the call", "w-two"},
		{"applied after its answer", nil, log{applied("one", 5), applied("two", 51)}, "outside of the call", "w-two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := linear.Check(append(c.ops, busy...), linear.Options{Applied: c.log})
			if err == nil {
				t.Fatal("nothing was found")
			}
			if !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "search") {
				t.Errorf("error = %v, want %q in it", err, c.why)
			}
			want := make(map[string]bool)
			for id := range strings.FieldsSeq(c.show) {
				want[id] = true
			}
			for _, op := range append(c.ops, busy...) {
				if got := strings.Contains(err.Error(), "("+op.ID+")"); got && !want[op.ID] {
					t.Errorf("%s is shown, and has no part in it: %v", op.ID, err)
				} else if want[op.ID] && !got {
					t.Errorf("%s is not shown: %v", op.ID, err)
				}
			}
		})
	}
}

func TestLinearizableHistoriesPass(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  ops
		log  log
	}{
		{"nothing", nil, nil},
		{"reads of nothing", ops{read("", 0, 10), read("", 20, 30)}, nil},
		{"ends touch", ops{write("one", 0, 10), write("two", 10, 20), read("one", 20, 30), read("two", 30, 40)}, nil},
		{"old and new while a write runs", ops{
			write("one", 0, 10), write("two", 20, 100), read("one", 30, 40), read("two", 50, 60), read("two", 70, 80),
		}, nil},
		{"unknown write without effect", ops{write("one", 0, 10), with(linear.Unknown, write("two", 20, 0)), read("one", 30, 40)}, nil},
		{"unknown write late", ops{
			write("one", 0, 10), with(linear.Unknown, write("two", 20, 0)), read("one", 30, 40),
			write("three", 50, 60), read("three", 70, 80), read("two", 90, 100),
		}, nil},
		{"unknown write not applied", ops{write("one", 0, 10), with(linear.Unknown, write("two", 20, 0)), read("one", 30, 40)}, log{applied("one", 3)}},
		{"unknown write applied", ops{
			write("one", 0, 10), with(linear.Unknown, write("two", 20, 0)), read("one", 30, 40), read("two", 40, 50),
		}, log{applied("one", 3), applied("two", 42)}},
		{"refused write without effect", ops{write("one", 0, 10), with(linear.Refused, write("two", 20, 30)), read("one", 40, 50)}, nil},
		{"unknown and refused reads", ops{write("one", 0, 10), with(linear.Unknown, read("x", 20, 0)), with(linear.Refused, read("y", 20, 30))}, nil},
		{"another key's", ops{write("one", 0, 10), {Key: "other", Call: 20, Return: 30, Outcome: linear.Known}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := linear.Check(c.ops, linear.Options{Applied: c.log}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInvalidOperationsAreAnError(t *testing.T) {
	for name, ops := range map[string][]linear.Op{
		"no outcome":       {{Key: key, Value: "x"}},
		"value twice":      {write("one", 0, 1), with(linear.Refused, write("one", 2, 3))},
		"empty value":      {write("", 0, 1)},
		"return too early": {write("one", 5, 4)},
	} {
		if err := linear.Check(ops, linear.Options{}); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

// The timeout is a nanosecond.
func TestSearchTimeoutIsAnError(t *testing.T) {
	err := linear.Check([]linear.Op{write("one", 0, 10)}, linear.Options{Timeout: time.Nanosecond})
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("Check = %v", err)
	}
}

// There are more invalid keys than the error text contains.
func TestErrorWithManyKeysIsShort(t *testing.T) {
	var ops []linear.Op
	for i := range 9 {
		ops = append(ops, linear.Op{Key: fmt.Sprintf("k%d", i), Value: "ghost", Return: 1, Outcome: linear.Known})
	}
	err := linear.Check(append(ops, write("fine", 0, 1)), linear.Options{})
	if err == nil || !strings.Contains(err.Error(), "9 of 10 keys") || strings.Count(err.Error(), "\tkey") != 5 || !strings.HasSuffix(err.Error(), "…") {
		t.Errorf("Check = %v", err)
	}
}

// The error text is compared with a golden text.
func TestContradictionIsReadable(t *testing.T) {
	const ms = int64(time.Millisecond)
	at := func(app string, epoch uint64) []history.Run { return []history.Run{{App: app, Shard: 7, Epoch: epoch}} }
	one, two, three := write("one", 100*ms, 104*ms), write("two", 2600*ms, 2603*ms), read("one", 2610*ms, 2612*ms)
	one.Runs, two.Runs, three.Runs = at("a", 5), at("b", 9), at("a", 5)
	err := linear.Check([]linear.Op{one, two, three}, linear.Options{Applied: []store.Applied{applied("one", 102*ms), applied("two", 2601*ms)}})
	want := `linear: 1 of 1 keys, 3 operations: a safety property is violated:
	key "k": each of these two values was present before and after the other
		          0s – 4ms          write "one" (w-one) at a, shard 7 epoch 5, applied at 2ms
		        2.5s – 2.503s       write "two" (w-two) at b, shard 7 epoch 9, applied at 2.501s
		       2.51s – 2.512s       read "one" (r-2610000000) at a, shard 7 epoch 5`
	if err == nil || err.Error() != want {
		t.Errorf("Check =\n%v\nwant\n%s", err, want)
	}
}

func TestOpsHaveTheOutcomeOfTheClient(t *testing.T) {
	answer := func(id, method, wrote, value string, status int, attempts ...history.Attempt) history.Response {
		return history.Response{
			ID: id, Key: key, Method: method, Register: "memory", WrittenValue: wrote, Value: value, Status: status,
			App: "a", EchoID: id, Attempts: append(attempts, history.Attempt{Sent: 20, Done: 30}),
		}
	}
	wrong := answer("wrong", "GET", "", "x", 200)
	wrong.EchoID = "other"
	shardway := answer("shardway", "POST", "five", "", 409)
	shardway.Error = "shard-moved"
	cut := answer("cut", "POST", "six", "", 200)
	cut.Truncated = true
	ops := linear.Ops([]history.Response{
		{ID: "ordinary", Method: "POST", Status: 200, Attempts: []history.Attempt{{Sent: 1, Done: 2}}},
		answer("w", "POST", "one", "", 200, history.Attempt{Sent: 1, Done: 2}),
		answer("r", "GET", "", "one", 200, history.Attempt{Sent: 1, Done: 2}),
		answer("lost", "POST", "two", "", 0),
		answer("never ran", "POST", "three", "", 0),
		answer("fenced", "POST", "four", "", 409),
		answer("fenced read", "GET", "", "", 409),
		answer("no read", "GET", "", "", 503),
		wrong, shardway, cut,
	}, []history.Run{{ID: "w", App: "a"}, {ID: "lost", App: "b"}, {ID: "shardway"}, {ID: "cut", Aborted: true}})
	var got []string
	for _, op := range ops {
		got = append(got, fmt.Sprintf("%d-%d %s", op.Call, op.Return, op))
	}
	want := `1-30 write "one" (w) at a, shard 0 epoch 0
20-30 read "one" (r) at a, shard 0 epoch 0
20-30 write "two", unknown (lost) at b, shard 0 epoch 0
20-30 write "four", refused (fenced)
20-30 read "", refused (fenced read)
20-30 write "five", unknown (shardway) at , shard 0 epoch 0
20-30 write "six", unknown (cut) at , shard 0 epoch 0, aborted`
	want = strings.Replace(want, "read \"one\" (r) at a, shard 0 epoch 0", "read \"one\" (r)", 1)
	if strings.Join(got, "\n") != want {
		t.Errorf("Ops =\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// genuine returns the operations of clients on a real register. Each operation takes
// effect at a moment between its start and its end at the client. Some writes are
// refused, and some lose their response, with or without effect.
func genuine(r *rand.Rand, n, spread int) (ops []linear.Op, log []store.Applied) {
	value := ""
	for i := range n {
		at := int64(1+i) * 100
		op := linear.Op{
			Key: key, Write: r.IntN(2) == 0, Outcome: linear.Known, ID: strconv.Itoa(i),
			Call: at - r.Int64N(int64(spread)*100), Return: at + r.Int64N(int64(spread)*100),
		}
		if !op.Write {
			op.Value = value
			ops = append(ops, op)
			continue
		}
		op.Value = fmt.Sprint("v", i)
		done := true
		switch r.IntN(8) {
		case 0:
			op.Outcome, done = linear.Refused, false
		case 1:
			op.Outcome, done = linear.Unknown, false
		case 2:
			op.Outcome = linear.Unknown
		}
		if done {
			value = op.Value
			log = append(log, applied(value, at))
		}
		ops = append(ops, op)
	}
	return ops, append([]store.Applied{}, log...)
}

// The histories come from real registers, with the log of the store and without.
func TestRealRegistersPass(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		ops, log := genuine(r, 1+r.IntN(60), 1+r.IntN(6))
		r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
		for _, o := range []linear.Options{{}, {Applied: log}} {
			if err := linear.Check(ops, o); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// The history is longer than that of one key in a round of chaos. With the log of the
// store, a hundred operations may be in flight at once.
func TestLongHistoriesAreCheap(t *testing.T) {
	ops, log := genuine(rand.New(rand.NewPCG(7, 7)), 1000, 100)
	if err := linear.Check(ops, linear.Options{Applied: log}); err != nil {
		t.Error(err)
	}
}
