package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// An error response contains the diagnosis of the cluster. Once, without a map, clients waited 10 s
// and were told that there is no leader, although there was one and no node had an app.
func TestErrorResponseContainsDiagnosis(t *testing.T) {
	const sentence = "no-healthy-app: no node has an app (a)"
	for name, tt := range map[string]struct {
		why   route.Reason
		e     route.Explanation
		code  string
		waits bool
	}{
		"nobody leads":       {route.ReasonNoMap, route.Explanation{Finding: sentence}, "no-leader", true},
		"somebody leads":     {route.ReasonNoMap, route.Explanation{Finding: sentence, HasLeader: true}, "queue-timeout", true},
		"waiting is in vain": {route.ReasonNoMap, route.Explanation{Finding: sentence, HasLeader: true, Hopeless: true}, "queue-timeout", false},
		"orphaned in vain":   {route.ReasonOrphaned, route.Explanation{Finding: sentence, HasLeader: true, Hopeless: true}, "queue-timeout", false},
		"what moves arrives": {route.ReasonMoving, route.Explanation{Finding: sentence, HasLeader: true, Hopeless: true}, "queue-timeout", true},
		"nothing is known":   {route.ReasonMoving, route.Explanation{}, "queue-timeout", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simNode(t, newSim(t), "a", simple, func(o *proxy.Options) {
					o.QueueWait = 10 * time.Second
					o.Explain = func(why route.Reason) route.Explanation {
						if why != tt.why {
							t.Errorf("asked why %v, want %v", why, tt.why)
						}
						return tt.e
					}
				})
				n.swap(2, 3, held(tt.why))
				began := time.Now()
				c := n.dial()
				res, body := c.get("/")
				wantStatus(t, res, body, 503, tt.code)
				if waited := time.Since(began) == 10*time.Second; waited != tt.waits {
					t.Errorf("answered after %v", time.Since(began))
				}
				if has := strings.Contains(body, `"finding":"`+sentence+`"`); has != (tt.e.Finding != "") {
					t.Errorf("the problem is %s", body)
				}
				_ = c.Close()
			})
		})
	}
}
