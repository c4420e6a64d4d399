package config_test

import (
	"slices"
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

// The default of raft-timeout adds no condition, and changes none. A longer one must fit to dead-after, and check advises
// how it should relate to lease and heartbeat. A shorter one cannot lose three heartbeats of Raft.
func TestRaftTimeoutHasBounds(t *testing.T) {
	defaults := config.Default()
	for _, b := range defaults.Bounds() {
		if strings.Contains(b.Rule, "raft-timeout") {
			t.Errorf("the default has the condition %s", b.Rule)
		}
	}
	for _, test := range []struct {
		args, problem string
		advice        []string // conditions that do not hold
	}{
		{"--raft-timeout=500ms", "", nil},
		{"--raft-timeout=2s --lease=2s --dead-after=10s --queue-wait=20s", "", nil},
		{"--raft-timeout=2s --dead-after=10s --queue-wait=20s", "", []string{"raft-timeout ≤ lease"}},
		{"--raft-timeout=2s --lease=2s --dead-after=6s --queue-wait=9s", "", []string{"0.85 × dead-after − lease ≥ 4s", "queue-wait ≥ dead-after + 4s"}},
		{"--raft-timeout=300ms --heartbeat=125ms", "", []string{"raft-timeout ≥ 3 × heartbeat"}},
		{"--raft-timeout=2s", "2 × raft-timeout ≤ dead-after", nil},
		{"--raft-timeout=299ms", "raft-timeout", nil},
		{"--raft-timeout=31s", "raft-timeout", nil},
		{"--raft-timeout=off", "raft-timeout", nil},
	} {
		c, err := config.Load(strings.Fields(test.args), nil, files(nil))
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: error %v, want %s", test.args, err, test.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		var advice []string
		for _, b := range c.Bounds() {
			if b.Advice && !b.Holds {
				advice = append(advice, b.Rule)
			}
		}
		if !slices.Equal(advice, test.advice) {
			t.Errorf("%s: not followed %q, want %q", test.args, advice, test.advice)
		}
		if c.ClusterSettings()["raft-timeout"] == "" {
			t.Errorf("%s: nodes do not compare raft-timeout", test.args)
		}
	}
}
