package keylimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A key never gets more requests than its bucket permits in any period, also if the buckets of all other
// keys are in use and keys share buckets.
func TestBucketsNeverExceedLimit(t *testing.T) {
	limit := &Limit{Interval: 100 * time.Millisecond, Burst: 5}
	for _, most := range []int{4, 1000} {
		b := NewBuckets()
		b.max = most
		var served [50][]time.Duration
		now := time.Hour
		for range 20_000 {
			now += time.Duration(rand.IntN(3)) * time.Millisecond
			key := rand.IntN(len(served))
			wait, ok := b.TakeRequest(ID{uint64(key), 1}, limit, now)
			if ok {
				served[key] = append(served[key], now)
			} else if wait <= 0 {
				t.Fatalf("refused, and may try again after %v", wait)
			}
		}
		for key, times := range served {
			for i := range times {
				if i+limit.Burst < len(times) && times[i+limit.Burst]-times[i] < limit.Interval {
					t.Fatalf("with %d buckets, key %d gets %d requests within %v", most, key, limit.Burst+1, times[i+limit.Burst]-times[i])
				}
			}
		}
		if b.Len() > most {
			t.Errorf("%d buckets, want up to %d", b.Len(), most)
		}
	}
}

// Full buckets are evicted, so that new keys get buckets of their own.
func TestOnlyFullBucketsAreEvicted(t *testing.T) {
	b := NewBuckets()
	b.max = 100
	limit := &Limit{Interval: time.Second, Burst: 1}
	for i := range 1000 {
		if _, ok := b.TakeRequest(ID{uint64(i * sharedBuckets), 0}, limit, 0); ok != (i <= 100) {
			t.Fatalf("key %d: %v", i, ok) // all further keys have the same shared bucket
		}
	}
	now := 2 * time.Second
	for i := range 300 {
		if _, ok := b.TakeRequest(ID{uint64(i * sharedBuckets), 9}, limit, now+time.Duration(i)*time.Second); !ok {
			t.Fatalf("key %d gets no bucket of its own", i)
		}
	}
	if b.Len() > 100 {
		t.Errorf("%d buckets", b.Len())
	}
}

// A returned token can be used again.
func TestReturnedTokenIsAvailable(t *testing.T) {
	b, limit, key := NewBuckets(), &Limit{Interval: time.Minute, Burst: 1}, ID{1, 2}
	for range 3 {
		if _, ok := b.TakeRequest(key, limit, time.Second); !ok {
			t.Fatal("no token")
		}
		if wait, ok := b.TakeRequest(key, limit, time.Second); ok || wait != time.Minute {
			t.Fatalf("second token: %v, %v", wait, ok)
		}
		b.ReturnRequest(key, limit, time.Second)
	}
}

func TestDenialHeaders(t *testing.T) {
	limit := &Limit{Interval: 500 * time.Millisecond, Burst: 20, Concurrent: 4, BodyRate: 1000}
	for kind, want := range map[Kind]string{
		Requests:   "RateLimit-Policy: \"requests\";q=20;w=10\r\nRateLimit: \"requests\";r=0;t=2\r\n",
		Concurrent: "RateLimit-Policy: \"concurrent-requests\";q=4;qu=\"concurrent-requests\"\r\nRateLimit: \"concurrent-requests\";r=0;t=2\r\n",
		BodyBytes:  "RateLimit-Policy: \"content-bytes\";q=1000;qu=\"content-bytes\";w=1\r\nRateLimit: \"content-bytes\";r=0;t=2\r\n",
	} {
		denial := Denial{Kind: kind, RetryAfter: 1500 * time.Millisecond}
		if got := string(denial.AppendHeaders(nil, limit)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", kind, got, want)
		}
	}
}

// A key that had a shared bucket continues with its tokens when it gets a bucket of its own.
func TestKeyKeepsTokensOfSharedBucket(t *testing.T) {
	b := NewBuckets()
	b.max = 2
	short, long := &Limit{Interval: time.Second, Burst: 1}, &Limit{Interval: 10 * time.Second, Burst: 1}
	b.TakeRequest(ID{1, 0}, short, time.Hour)
	b.TakeRequest(ID{2, 0}, short, time.Hour)
	if _, ok := b.TakeRequest(ID{3, 0}, long, time.Hour); !ok {
		t.Fatal("no token in the shared bucket")
	}
	b.TakeRequest(ID{4, 0}, short, time.Hour+2*time.Second)
	if b.Len() != 1 {
		t.Fatalf("%d buckets, want one: the others are full", b.Len())
	}
	if wait, ok := b.TakeRequest(ID{3, 0}, long, time.Hour+3*time.Second); ok || wait != 7*time.Second {
		t.Errorf("with room for an own bucket: %v, %v, want to wait for 7 s", wait, ok)
	}
}
