package appsilence

import (
	"testing"
	"time"
)

// appCase is an app at which requests wait.
type appCase struct {
	a   Detector
	now time.Duration
}

// pass lets time pass, with a sweep every second, while requests wait since these times.
func (c *appCase) pass(d time.Duration, safe bool, since ...time.Duration) bool {
	for end := c.now + d; c.now < end; {
		c.now += time.Second
		c.a.BeginSweep(c.now)
		for _, s := range since {
			c.a.CountWaiting(s, safe, nil)
		}
		c.a.EndSweep()
	}
	return c.a.lastSweep.hangs
}

func TestAppWithoutResponsesCountsAsHanging(t *testing.T) {
	t.Parallel()
	c := appCase{now: time.Second}
	c.a.RecordResponse(c.now)
	if since := c.now; c.pass(minUnsafeSilence-time.Second, false, since) || !c.pass(time.Second, false, since) {
		t.Errorf("a POST waits: the app hangs after other than %v", minUnsafeSilence)
	}
	c.a.RecordResponse(c.now)
	if c.pass(time.Second, false, c.now) {
		t.Error("the app hangs though it responds")
	}
}

// TestLongPollsAloneDoNotCountAsHang plays an app that gets long polls only, each of a minute, and a
// slow one whose responses begin after 50 s.
func TestLongPollsAloneDoNotCountAsHang(t *testing.T) {
	t.Parallel()
	c := appCase{now: time.Second}
	for range 10 {
		if c.pass(time.Minute, true, c.now, c.now, c.now) {
			t.Fatal("long polls count as a hang")
		}
		c.a.RecordResponse(c.now)
	}
	if since := c.now; c.pass(minSafeSilence-time.Second, true, since) || !c.pass(time.Second, true, since) {
		t.Errorf("GETs wait: the app hangs after other than %v", minSafeSilence)
	}
	slow := appCase{now: time.Second}
	slow.pass(50*time.Second, false, slow.now)
	slow.a.RecordResponse(slow.now)
	for range 10 {
		if slow.pass(50*time.Second, false, slow.now) {
			t.Fatal("a response that takes as long as earlier ones counts as a hang")
		}
		slow.a.RecordResponse(slow.now)
	}
	if !slow.pass(3*time.Minute, false, slow.now) {
		t.Error("an app that takes much longer than ever does not hang")
	}
}

// TestRequestsNextToResponsesDoNotCountAsHang has one request wait while others are answered.
func TestRequestsNextToResponsesDoNotCountAsHang(t *testing.T) {
	t.Parallel()
	c := appCase{now: time.Second}
	since := c.now
	for range 600 {
		c.a.RecordResponse(c.now)
		if c.pass(time.Second, false, since) {
			t.Fatal("the app hangs though it responds")
		}
	}
	if c.pass(time.Minute, false) {
		t.Error("the app hangs though nothing waits")
	}
}
