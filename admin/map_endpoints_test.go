package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestMapHasItsEpochAsETag(t *testing.T) {
	h := handlerOf(newFake())
	if got := fetchJSON(t, h, "GET", "/v1/map", "").Header().Get("ETag"); got != `"17"` {
		t.Errorf("ETag = %s, want \"17\"", got)
	}
	for value, status := range map[string]int{
		`"17"`: 304, `W/"17"`: 304, `"3", "17"`: 304, "*": 304, `"16"`: 200, "17": 200, "": 200,
	} {
		res := fetchJSON(t, h, "GET", "/v1/map", "", "If-None-Match", value)
		if got := body(res); res.Code != status || (status == 304) != (got == "") {
			t.Errorf("If-None-Match %s = %d %q, want %d", value, res.Code, got, status)
		}
	}
}

// poll requests the map in a goroutine. The channel receives the response.
func poll(ctx context.Context, h http.Handler, target, known string) <-chan *httptest.ResponseRecorder {
	got := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		r.Host = "localhost:8081"
		r.Header.Set("If-None-Match", known)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got <- w
	}()
	return got
}

func TestLongPollReturnsTheNextMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		got := poll(t.Context(), handlerOf(f), "/v1/map?after=17&wait=30s", `"17"`)
		synctest.Wait()
		f.commit(21)
		synctest.Wait()
		select {
		case res := <-got:
			if res.Code != 200 || res.Header().Get("ETag") != `"21"` {
				t.Errorf("answer = %d, ETag %s, want the map of epoch 21", res.Code, res.Header().Get("ETag"))
			}
		default:
			t.Fatal("no answer after the commit")
		}
	})
}

func TestLongPollWaitsAsLongAsAskedAndAMinuteAtMost(t *testing.T) {
	for target, want := range map[string]time.Duration{
		"/v1/map?after=17&wait=2s": 2 * time.Second,
		"/v1/map?after=17&wait=0s": 0,
		"/v1/map?after=17":         30 * time.Second,
		"/v1/map?after=17&wait=5h": time.Minute,
		"/v1/map?after=16&wait=9s": 0, // a newer map exists already
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			res := <-poll(t.Context(), handlerOf(newFake()), target, `"17"`)
			if took := time.Since(begun); took != want || res.Code != http.StatusNotModified {
				t.Errorf("GET %s took %v and gave %d, want %v and 304", target, took, res.Code, want)
			}
		})
	}
}

func TestLongPollWithoutConditionGetsTheMapAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := <-poll(t.Context(), handlerOf(newFake()), "/v1/map?after=17&wait=1s", "")
		if res.Code != 200 || res.Header().Get("ETag") != `"17"` {
			t.Errorf("answer = %d, ETag %s, want the map of epoch 17", res.Code, res.Header().Get("ETag"))
		}
	})
}

func TestLongPollEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got := poll(ctx, handlerOf(newFake()), "/v1/map?after=17", "")
		synctest.Wait()
		cancel()
		begun := time.Now()
		<-got
		if took := time.Since(begun); took != 0 {
			t.Errorf("waited %v for a client that had gone", took)
		}
	})
}
