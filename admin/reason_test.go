package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
	"shardway/event"
)

// Each request that changes the cluster accepts a reason, which the log and the event contain. A reason that is too
// long or has control characters changes nothing, and is neither in the log nor in an event.
func TestEachActionHasAReason(t *testing.T) {
	longest := strings.Repeat("é", api.MaxReason/2)
	for _, target := range everyPath {
		path, isAction := strings.CutPrefix(target, "POST ")
		if !isAction {
			continue
		}
		for reason, isValid := range map[string]bool{longest: true, longest + "x": false, "two\nlines": false, "\x7f": false, "\xff": false} {
			f, log, events := newFake(), &record{}, ring("n1")
			f.commit(18)
			h := admin.New(admin.Options{
				API: apitest.SetOf(capable{f, &upgradable{fake: f}, &timingCluster{fake: f}, &planning{fake: f}, &draining{fake: f}, owning{f}, &locking{}}), Metrics: prometheus.NewRegistry(), Log: zerolog.New(log), Events: events,
				Access: auth.Access{Write: tokens(t, "alice "+writeToken)},
			}).Handler()
			u, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			values := u.Query()
			values.Set("reason", reason)
			res := fetchJSON(t, h, "POST", u.Path+"?"+values.Encode(), "", "Authorization", "Bearer "+writeToken)
			if isRefused := res.Code == http.StatusBadRequest && problemOf(t, res).Param == "reason"; isRefused == isValid {
				t.Errorf("POST %s with the reason %q = %d %s", u.Path, reason, res.Code, body(res))
			}
			logged := log.lines(t, "change requested")
			cursor, err := events.Read("")
			if err != nil || len(logged) != 1 {
				t.Fatalf("%v, %d lines", err, len(logged))
			}
			inLog, _ := logged[0]["reason"].(string)
			inEvent, _ := cursor.Next(10)
			want := ""
			if isValid {
				want = reason
			} else if did := f.actions(); len(did) > 0 {
				t.Errorf("POST %s with the reason %q did %+v", u.Path, reason, did)
			}
			last := inEvent[len(inEvent)-1]
			if last.Kind != event.ActionRequested || last.Action.Reason != want || inLog != want {
				t.Errorf("POST %s with the reason %q: the log has %q, the event %+v", u.Path, reason, inLog, last.Action)
			}
		}
	}
}
