package config_test

import (
	"strings"
	"testing"
	"time"

	"shardway/config"
)

func TestDefaultTimingsHoldEveryBound(t *testing.T) {
	c := config.Default()
	for _, b := range c.Explain().Bounds {
		if !b.Holds {
			t.Errorf("%s does not hold: %s", b.Rule, b.Figures)
		}
		if b.Why == "" || b.Figures == "" {
			t.Errorf("%s is not explained: %+v", b.Rule, b)
		}
	}
}

func TestFiguresFollowFromTheTimings(t *testing.T) {
	c := config.Default()
	got := map[string]time.Duration{"silent": c.SilenceLimit(), "run out": c.LatestLeaseExpiry(), "cut": c.AbortDelay(), "ack": c.AckDeadline()}
	want := map[string]time.Duration{"silent": 500 * time.Millisecond, "run out": 550 * time.Millisecond, "cut": 1625 * time.Millisecond, "ack": 6 * time.Second}
	for k, w := range want {
		if got[k] != w {
			t.Errorf("%s = %v, want %v", k, got[k], w)
		}
	}
}

// An app with hooks has the time that its release takes, and a node without any waits
// for nobody's.
func TestHooksMakeTheAcknowledgementLater(t *testing.T) {
	c := config.Default()
	if c.EmbeddedHooks = true; c.AckDeadline() != 10*time.Second {
		t.Errorf("with hooks the acknowledgement is due after %v, want 10s", c.AckDeadline())
	}
	if err := c.Validate(); err != nil {
		t.Errorf("the default timings with hooks: %v", err)
	}
	c.ReleaseTimeout, c.QueueWait = time.Minute, 10*time.Second
	if c.EmbeddedHooks = false; c.Validate() != nil || c.AckDeadline() != 6*time.Second {
		t.Errorf("without hooks: %v, %v", c.Validate(), c.AckDeadline())
	}
}

func TestFenceDecidesWhenShardsAreTaken(t *testing.T) {
	for takeover, want := range map[config.Takeover]string{config.TakeoverTimeout: "2.5s", config.TakeoverLease: "550ms", config.TakeoverImmediate: "0s"} {
		c := config.Default()
		c.Takeover = takeover
		for _, f := range c.Figures() {
			if strings.HasPrefix(f.Name, "crashed") && f.Value != want {
				t.Errorf("takeover %s: shards after %s, want %s", takeover, f.Value, want)
			}
		}
	}
}

// Whatever passes the bounds keeps the promise behind them: what a node runs
// without a lease is over before its shards may be taken, with clocks 10 % apart.
func TestRunningRequestsEndBeforeTheirShardsAreTaken(t *testing.T) {
	for lease := 100 * time.Millisecond; lease < 10*time.Second; lease += 137 * time.Millisecond {
		for dead := 250 * time.Millisecond; dead < 30*time.Second; dead += 311 * time.Millisecond {
			c := config.Default()
			c.Lease, c.DeadAfter, c.Heartbeat = lease, dead, min(lease/4, dead/10)
			if c.Validate() != nil {
				continue
			}
			if cut := (c.Lease + c.AbortDelay()) * 11 / 10; cut >= dead || c.AbortDelay() <= 0 {
				t.Fatalf("lease %v, dead-after %v: requests run until %v", lease, dead, cut)
			}
		}
	}
}

func TestAdviceDoesNotRefuse(t *testing.T) {
	c, err := config.Load([]string{"--queue-wait=1s", "--dead-after=1.2s"}, nil, files(nil))
	if err != nil {
		t.Fatal(err)
	}
	var broken int
	for _, b := range c.Bounds() {
		if b.Advice && !b.Holds {
			broken++
		}
	}
	if broken != 3 {
		t.Errorf("%d pieces of advice not followed, want 3", broken)
	}
}
