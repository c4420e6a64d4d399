package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/registry"
)

// log applies commands to a state, as a node does.
type log struct {
	*testing.T
	state *registry.State
	index uint64
}

func newLog(t *testing.T) *log {
	t.Helper()
	return &log{T: t, state: registry.NewState(), index: 100}
}

// do applies a command at the next index.
func (l *log) do(c registry.Command) registry.Result {
	l.Helper()
	l.index++
	result, err := l.state.Apply(l.index, c.Encode())
	if err != nil {
		l.Fatalf("%+v: %v", c, err)
	}
	return result
}

// want applies a command and checks its outcome.
func (l *log) want(outcome registry.Outcome, c registry.Command) registry.Result {
	l.Helper()
	result := l.do(c)
	if result.Outcome != outcome {
		l.Fatalf("%+v: outcome %s, want %s", c, result.Outcome, outcome)
	}
	return result
}

func acquire(holder string, wait time.Duration) registry.Command {
	return registry.Command{Kind: registry.Acquire, Name: "job", Holder: holder, TTL: time.Minute, Wait: wait}
}

func TestRepeatedAcquireKeepsTheToken(t *testing.T) {
	l := newLog(t)
	first := l.want(registry.Done, acquire("a", 0))
	again := l.want(registry.Done, acquire("a", 0))
	if first.Lock.Token != first.Index || again.Lock.Token != first.Lock.Token || again.Lock.Renewal != again.Index {
		t.Errorf("first %+v, again %+v", first, again)
	}
	l.want(registry.Queued, acquire("b", time.Second))
	l.want(registry.Queued, acquire("c", time.Second))
	if again := l.want(registry.Queued, acquire("b", time.Second)); again.Position != 1 {
		t.Errorf("repeated acquire has place %d, want the first", again.Position)
	}
}

func TestWaitersGetTheLockInOrder(t *testing.T) {
	l := newLog(t)
	token := l.want(registry.Done, acquire("a", 0)).Lock.Token
	for i, holder := range []string{"b", "c", "d"} {
		if got := l.want(registry.Queued, acquire(holder, time.Minute)); got.Position != i+1 {
			t.Errorf("%s has place %d, want %d", holder, got.Position, i+1)
		}
	}
	l.want(registry.Held, acquire("e", 0))
	last := "a"
	for _, holder := range []string{"b", "c", "d"} {
		released := l.want(registry.Done, registry.Command{Kind: registry.Release, Name: "job", Holder: last, Token: token})
		lock, _ := l.state.Lock("job")
		if lock.Holder != holder || lock.Token != released.Index || !released.Freed {
			t.Fatalf("after release %+v: %+v, want %s", released, lock, holder)
		}
		last, token = holder, lock.Token
	}
	if lock, _ := l.state.Lock("job"); lock.Contended != 4 {
		t.Errorf("contended %d times, want 4", lock.Contended)
	}
	l.want(registry.Done, registry.Command{Kind: registry.Release, Name: "job", Holder: last, Token: token})
	if _, exists := l.state.Lock("job"); exists {
		t.Error("the lock is not free")
	}
}

func TestRenewalWinsOverExpiry(t *testing.T) {
	l := newLog(t)
	lock := l.want(registry.Done, acquire("a", 0)).Lock
	expire := registry.Command{Kind: registry.Expire, Name: "job", Token: lock.Token, Renewal: lock.Renewal}
	renewed := l.want(registry.Done, registry.Command{Kind: registry.Renew, Name: "job", Holder: "a", Token: lock.Token})
	l.want(registry.Ignored, expire)
	expire.Renewal = renewed.Lock.Renewal
	l.want(registry.Done, expire)
	l.want(registry.NotHeld, registry.Command{Kind: registry.Renew, Name: "job", Holder: "a", Token: lock.Token})
	l.want(registry.Done, acquire("b", 0))
	l.want(registry.Ignored, expire)
}

func TestOldTokenHasNoEffect(t *testing.T) {
	l := newLog(t)
	old := l.want(registry.Done, acquire("a", 0)).Lock.Token
	release := registry.Command{Kind: registry.Release, Name: "job", Holder: "a", Token: old}
	l.want(registry.Done, release)
	l.want(registry.NotHeld, release)
	l.want(registry.Done, acquire("a", 0))
	l.want(registry.NotHeld, release)
	l.want(registry.NotHeld, registry.Command{Kind: registry.Renew, Name: "job", Holder: "a", Token: old})
	lock, _ := l.state.Lock("job")
	l.want(registry.NotHeld, registry.Command{Kind: registry.Release, Name: "job", Holder: "b", Token: lock.Token})
}

func TestWithdrawOfALeftRequest(t *testing.T) {
	withdraw := func(holder string, r registry.Result) registry.Command {
		return registry.Command{Kind: registry.Withdraw, Name: "job", Holder: holder, Renewal: r.Index}
	}
	l := newLog(t)
	token := l.want(registry.Done, acquire("a", 0)).Lock.Token
	old := l.want(registry.Queued, acquire("b", time.Second))
	waiting := l.want(registry.Queued, acquire("b", time.Second))
	l.want(registry.Ignored, withdraw("b", old)) // the holder waits in another request
	c := l.want(registry.Queued, acquire("c", time.Second))
	l.want(registry.Done, withdraw("c", c))
	l.want(registry.Done, registry.Command{Kind: registry.Release, Name: "job", Holder: "a", Token: token})
	l.want(registry.Done, withdraw("b", waiting)) // granted, and the caller has left
	if lock, exists := l.state.Lock("job"); exists {
		t.Errorf("the lock is still held: %+v", lock)
	}
	token = l.want(registry.Done, acquire("a", 0)).Lock.Token
	waiting = l.want(registry.Queued, acquire("b", time.Second))
	l.want(registry.Done, registry.Command{Kind: registry.Release, Name: "job", Holder: "a", Token: token})
	l.want(registry.Done, acquire("b", 0)) // the holder uses the lock
	l.want(registry.Ignored, withdraw("b", waiting))
}

func TestExpiredWaiterLeavesTheQueue(t *testing.T) {
	l := newLog(t)
	l.want(registry.Done, acquire("a", 0))
	first := l.want(registry.Queued, acquire("b", time.Second))
	again := l.want(registry.Queued, acquire("b", time.Second))
	expire := registry.Command{Kind: registry.ExpireWaiter, Name: "job", Holder: "b", Renewal: first.Index}
	l.want(registry.Ignored, expire)
	expire.Renewal = again.Index
	l.want(registry.Done, expire)
	l.want(registry.Queued, acquire("c", time.Second))
	l.want(registry.Held, acquire("c", 0)) // without a wait, the holder leaves the queue
	if _, waiters := l.state.Counts(); waiters != 0 {
		t.Errorf("%d waiters, want none", waiters)
	}
}

func TestCompareOnIndex(t *testing.T) {
	l := newLog(t)
	put := func(compare bool, index uint64) registry.Command {
		return registry.Command{Kind: registry.Put, Name: "app/config", Compare: compare, Index: index, Value: []byte("v")}
	}
	first := l.want(registry.Done, put(true, 0))
	if got := l.want(registry.Conflict, put(true, 0)); got.ValueIndex != first.Index {
		t.Errorf("conflict with index %d, want %d", got.ValueIndex, first.Index)
	}
	second := l.want(registry.Done, put(true, first.Index))
	l.want(registry.Done, put(false, 0))
	drop := registry.Command{Kind: registry.Delete, Name: "app/config", Compare: true, Index: second.Index}
	l.want(registry.Conflict, drop)
	drop.Compare = false
	l.want(registry.Done, drop)
	l.want(registry.NotFound, drop)
	if l.state.Bytes() != 0 {
		t.Errorf("%d bytes in an empty store", l.state.Bytes())
	}
}

func TestKeysHaveThePrefix(t *testing.T) {
	l := newLog(t)
	for _, key := range []string{"b/2", "a/1", "b/1", "b"} {
		l.want(registry.Done, registry.Command{Kind: registry.Put, Name: key})
	}
	if got := l.state.Keys("b/"); !slices.Equal(got, []string{"b/1", "b/2"}) {
		t.Errorf("keys %q", got)
	}
}

func TestLimitsOfTheRegistry(t *testing.T) {
	l := newLog(t)
	big := bytes.Repeat([]byte{1}, registry.MaxValue)
	key := func(i int) string { return fmt.Sprintf("key-%03d", i) }
	stored := 0
	for ; ; stored++ {
		result := l.do(registry.Command{Kind: registry.Put, Name: key(stored), Value: big})
		if result.Outcome == registry.Full {
			if !strings.Contains(result.Limit, "16777216 bytes") {
				t.Errorf("limit %q", result.Limit)
			}
			break
		}
	}
	if stored != registry.MaxBytes/(registry.MaxValue+len(key(0))) {
		t.Errorf("%d values fit", stored)
	}
	l.want(registry.Done, registry.Command{Kind: registry.Put, Name: key(0), Value: big}) // replaces its own bytes
	for i := range registry.MaxWorkers {
		l.want(registry.Done, registry.Command{Kind: registry.AssignWorker, Name: fmt.Sprintf("n%d", i)})
	}
	l.want(registry.Full, registry.Command{Kind: registry.AssignWorker, Name: "another"})
	for i := range registry.MaxLocks {
		l.want(registry.Done, registry.Command{Kind: registry.Acquire, Name: fmt.Sprintf("lock-%d", i), Holder: "h", TTL: time.Minute})
	}
	l.want(registry.Full, acquire("a", 0))
	for i := range registry.MaxWaiters {
		l.want(registry.Queued, registry.Command{Kind: registry.Acquire, Name: "lock-1", Holder: fmt.Sprint("w", i), TTL: time.Minute, Wait: time.Second})
	}
	l.want(registry.Full, registry.Command{Kind: registry.Acquire, Name: "lock-2", Holder: "w", TTL: time.Minute, Wait: time.Second})
	if size := len(l.state.Marshal()); size > registry.MaxSnapshot {
		t.Errorf("a snapshot has %d bytes, the limit is %d", size, registry.MaxSnapshot)
	}
	l.restore()
}

// restore replaces the state by its snapshot, which must be exact.
func (l *log) restore() {
	l.Helper()
	encoded := l.state.Marshal()
	restored, err := registry.Decode(encoded)
	if err != nil {
		l.Fatal(err)
	}
	if !bytes.Equal(restored.Marshal(), encoded) || restored.Index() != l.state.Index() || restored.Bytes() != l.state.Bytes() {
		l.Fatal("the restored state differs")
	}
	l.state = restored
}

func TestWorkerIDsAreUniqueAndStable(t *testing.T) {
	l := newLog(t)
	assign := func(node string) uint32 {
		return l.want(registry.Done, registry.Command{Kind: registry.AssignWorker, Name: node}).WorkerID
	}
	if a, b, again := assign("a"), assign("b"), assign("a"); a != 0 || b != 1 || again != 0 {
		t.Errorf("worker IDs %d, %d, %d", a, b, again)
	}
	l.want(registry.Done, registry.Command{Kind: registry.ReleaseWorker, Name: "a"})
	l.want(registry.Ignored, registry.Command{Kind: registry.ReleaseWorker, Name: "a"})
	l.restore()
	if c, a := assign("c"), assign("a"); c != 0 || a != 2 {
		t.Errorf("after removal: worker IDs %d, %d", c, a)
	}
}

func TestRecoveredRegistryHasNoLocks(t *testing.T) {
	l := newLog(t)
	old := l.want(registry.Done, acquire("a", 0)).Lock.Token
	l.want(registry.Queued, acquire("b", time.Second))
	l.want(registry.Done, registry.Command{Kind: registry.Put, Name: "k", Value: []byte("v")})
	l.want(registry.Done, registry.Command{Kind: registry.AssignWorker, Name: "a"})
	l.state, l.index = l.state.Recovered(), 1<<33
	locks, waiters := l.state.Counts()
	value, exists := l.state.Value("k")
	_, hasWorker := l.state.WorkerID("a")
	if locks != 0 || waiters != 0 || !exists || string(value.Data) != "v" || !hasWorker {
		t.Errorf("recovered: %d locks, %d waiters, value %t, worker %t", locks, waiters, exists, hasWorker)
	}
	if token := l.want(registry.Done, acquire("c", 0)).Lock.Token; token <= old {
		t.Errorf("token %d after %d", token, old)
	}
}

func TestInvalidFieldsAreNamed(t *testing.T) {
	for _, tc := range []struct {
		c    registry.Command
		want string
	}{
		{registry.Command{Kind: registry.Acquire, Holder: "h", TTL: time.Minute}, `name = "" has 0 bytes: give 1 to 128`},
		{registry.Command{Kind: registry.Acquire, Name: "a/b", Holder: "h", TTL: time.Minute}, `name = "a/b" contains '/'`},
		{registry.Command{Kind: registry.Acquire, Name: "..", Holder: "h", TTL: time.Minute}, `name = ".."`},
		{registry.Command{Kind: registry.Acquire, Name: "l", Holder: strings.Repeat("h", 129), TTL: time.Minute}, "has 129 bytes: give 1 to 128"},
		{registry.Command{Kind: registry.Acquire, Name: "l", Holder: "a b", TTL: time.Minute}, `holder = "a b" contains ' '`},
		{registry.Command{Kind: registry.Acquire, Name: "l", Holder: "h", TTL: time.Millisecond}, `ttl = "1ms" is out of bounds: give a duration from 1s to 24h0m0s`},
		{registry.Command{Kind: registry.Renew, Name: "l", Holder: "h", TTL: 25 * time.Hour}, `ttl = "25h0m0s"`},
		{registry.Command{Kind: registry.Acquire, Name: "l", Holder: "h", TTL: time.Minute, Wait: time.Hour}, `wait = "1h0m0s" is out of bounds: give a duration up to 5m0s`},
		{registry.Command{Kind: registry.Put, Name: "a//b"}, `key = "a//b" has the segment ""`},
		{registry.Command{Kind: registry.Put, Name: "a/../b"}, `has the segment ".."`},
		{registry.Command{Kind: registry.Put, Name: "ä"}, "use printable ASCII"},
		{registry.Command{Kind: registry.Put, Name: "k", Value: make([]byte, registry.MaxValue+1)}, `value = "65537 bytes" is too long: give up to 65536 bytes`},
		{registry.Command{Kind: registry.AssignWorker}, `node = ""`},
	} {
		err := tc.c.Validate()
		if _, ok := errors.AsType[*registry.FieldError](err); !ok || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.c.Name, err, tc.want)
		}
		if _, err := registry.NewState().Apply(1, tc.c.Encode()); !errors.Is(err, registry.ErrCorrupt) {
			t.Errorf("%+v in the log: %v, want ErrCorrupt", tc.c.Name, err)
		}
	}
}

func TestDeadlinesStartWithTheRenewal(t *testing.T) {
	l := newLog(t)
	lock := l.want(registry.Done, acquire("a", 0)).Lock
	l.want(registry.Queued, acquire("b", time.Second))
	d := registry.NewDeadlines()
	d.Update(10*time.Second, l.state)
	d.Update(12*time.Second, l.state)
	if commands, next := d.Due(15 * time.Second); len(commands) != 0 || next != 16*time.Second {
		t.Errorf("due %+v, next %v", commands, next)
	}
	commands, next := d.Due(16 * time.Second)
	if len(commands) != 1 || commands[0].Kind != registry.ExpireWaiter || next != 70*time.Second {
		t.Fatalf("due %+v, next %v, want the waiter", commands, next)
	}
	l.want(registry.Done, commands[0])
	l.want(registry.Done, registry.Command{Kind: registry.Renew, Name: "job", Holder: "a", Token: lock.Token, TTL: time.Hour})
	d.Update(60*time.Second, l.state)
	if commands, next = d.Due(70 * time.Second); len(commands) != 0 || next != 3660*time.Second {
		t.Errorf("after renewal: due %+v, next %v", commands, next)
	}
	commands, _ = d.Due(3660 * time.Second)
	if len(commands) != 1 {
		t.Fatalf("due %+v", commands)
	}
	l.want(registry.Done, commands[0])
	d.Update(3661*time.Second, l.state)
	if commands, next := d.Due(9999 * time.Second); len(commands) != 0 || next != 0 {
		t.Errorf("freed lock: due %+v, next %v", commands, next)
	}
}

// model is the reference for TestRandomCommandsMatchTheModel: it has no counters and no encoding.
type model struct {
	holder       map[string]string // by lock
	token        map[string]uint64
	highestToken map[string]uint64
	queue        map[string][]string
	values       map[string]string
	written      map[string]uint64
}

// TestRandomCommandsMatchTheModel applies random commands to a state and to a model, and restores the state from
// snapshots in between. Tokens of a lock must increase, and waiters must get it in order.
func TestRandomCommandsMatchTheModel(t *testing.T) {
	for seed := range uint64(200) {
		randomRun(t, rand.New(rand.NewPCG(seed, 34)))
	}
}

func randomRun(t *testing.T, r *rand.Rand) {
	t.Helper()
	l := newLog(t)
	m := model{map[string]string{}, map[string]uint64{}, map[string]uint64{}, map[string][]string{}, map[string]string{}, map[string]uint64{}}
	d := registry.NewDeadlines()
	now := time.Duration(0)
	for range 120 {
		now += time.Duration(r.IntN(3)) * time.Second
		name, holder := fmt.Sprint("l", r.IntN(2)), fmt.Sprint("h", r.IntN(4))
		switch r.IntN(8) {
		case 0, 1, 2:
			m.acquire(l, name, holder, time.Duration(r.IntN(3))*time.Second)
		case 3:
			m.end(l, name, registry.Command{Kind: registry.Release, Name: name, Holder: holder, Token: m.token[name]}, m.holder[name] == holder)
		case 4:
			command := registry.Command{Kind: registry.Renew, Name: name, Holder: holder, Token: m.token[name] - uint64(r.IntN(2))}
			isHeld := m.holder[name] == holder && command.Token == m.token[name]
			if got := l.do(command); (got.Outcome == registry.Done) != isHeld {
				t.Fatalf("renew: %+v, want %t", got, isHeld)
			}
		case 5:
			d.Update(now, l.state)
			commands, _ := d.Due(now)
			for _, command := range commands {
				if command.Kind == registry.Expire {
					m.end(l, command.Name, command, true)
				} else if l.want(registry.Done, command); true {
					m.queue[command.Name] = slices.DeleteFunc(m.queue[command.Name], func(h string) bool { return h == command.Holder })
				}
				d.Update(now, l.state)
			}
		case 6:
			m.write(l, fmt.Sprint("k", r.IntN(3)), r)
		case 7:
			l.restore()
		}
		m.check(l)
	}
}

func (m *model) acquire(l *log, name, holder string, wait time.Duration) {
	got := l.do(registry.Command{Kind: registry.Acquire, Name: name, Holder: holder, TTL: 2 * time.Second, Wait: wait})
	place := slices.Index(m.queue[name], holder)
	switch {
	case m.holder[name] == "":
		m.grant(l, name, holder)
	case m.holder[name] == holder:
	case wait == 0 && place >= 0:
		m.queue[name] = slices.Delete(m.queue[name], place, place+1)
	case wait > 0 && place < 0:
		m.queue[name] = append(m.queue[name], holder)
	}
	if isHolder := m.holder[name] == holder; isHolder != (got.Outcome == registry.Done) || isHolder && got.Lock.Token != m.token[name] {
		l.Fatalf("acquire by %s: %+v, holder %s with token %d", holder, got, m.holder[name], m.token[name])
	}
}

// grant gives the lock to a holder with the index of the last entry as token.
func (m *model) grant(l *log, name, holder string) {
	if l.index <= m.highestToken[name] {
		l.Fatalf("token %d after %d", l.index, m.highestToken[name])
	}
	m.holder[name], m.token[name], m.highestToken[name] = holder, l.index, l.index
}

// end applies a command that ends the holder, if it counts.
func (m *model) end(l *log, name string, command registry.Command, counts bool) {
	if got := l.do(command); (got.Outcome == registry.Done) != counts {
		l.Fatalf("%+v: %+v, want %t", command, got, counts)
	}
	if !counts {
		return
	}
	m.holder[name], m.token[name] = "", 0
	if queue := m.queue[name]; len(queue) > 0 {
		m.queue[name] = queue[1:]
		m.grant(l, name, queue[0])
	}
}

func (m *model) write(l *log, key string, r *rand.Rand) {
	command := registry.Command{Kind: registry.Put, Name: key, Value: []byte(strconv.Itoa(r.IntN(1000))), Compare: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		command.Index = m.written[key]
	}
	if r.IntN(3) == 0 {
		command.Kind, command.Value = registry.Delete, nil
	}
	got := l.do(command)
	counts := !command.Compare || command.Index == m.written[key]
	if command.Kind == registry.Delete {
		counts = counts && m.written[key] != 0
	}
	if (got.Outcome == registry.Done) != counts {
		l.Fatalf("%+v: %+v, want %t", command, got, counts)
	}
	if counts && command.Kind == registry.Delete {
		delete(m.values, key)
		delete(m.written, key)
	} else if counts {
		m.values[key], m.written[key] = string(command.Value), l.index
	}
}

func (m *model) check(l *log) {
	for name, holder := range m.holder {
		lock, _ := l.state.Lock(name)
		var queue []string
		for _, w := range lock.Waiters {
			queue = append(queue, w.Holder)
		}
		if lock.Holder != holder || lock.Token != m.token[name] || !slices.Equal(queue, m.queue[name]) {
			l.Fatalf("lock %s: %+v, want holder %q, token %d, queue %q", name, lock, holder, m.token[name], m.queue[name])
		}
	}
	size := 0
	for key, value := range m.values {
		got, _ := l.state.Value(key)
		if string(got.Data) != value || got.Index != m.written[key] {
			l.Fatalf("key %s: %+v, want %q", key, got, value)
		}
		size += len(key) + len(value)
	}
	if len(l.state.Keys("")) != len(m.values) || l.state.Bytes() != size {
		l.Fatalf("%d keys with %d bytes, want %d with %d", len(l.state.Keys("")), l.state.Bytes(), len(m.values), size)
	}
}

func FuzzDecode(f *testing.F) {
	l := &log{state: registry.NewState(), T: &testing.T{}}
	l.do(acquire("a", 0))
	l.do(acquire("b", time.Second))
	l.do(registry.Command{Kind: registry.Put, Name: "k", Value: []byte("v")})
	f.Add(l.state.Marshal())
	c := acquire("a", 0)
	f.Add(c.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := registry.Decode(data); err == nil && !bytes.Equal(s.Marshal(), data) {
			t.Errorf("decoded %x, encoded %x", data, s.Marshal())
		}
		if c, err := registry.DecodeCommand(data); err == nil && !bytes.Equal(c.Encode(), data) {
			t.Errorf("decoded %x, encoded %x", data, c.Encode())
		}
	})
}
