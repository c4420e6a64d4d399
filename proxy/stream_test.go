package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestResponseMayBeginBeforeRequestEnds(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				_ = rc.EnableFullDuplex()
				buf := make([]byte, 100)
				for {
					n, err := r.Body.Read(buf)
					_, _ = w.Write(bytes.ToUpper(buf[:n]))
					_ = rc.Flush()
					if err != nil {
						return
					}
				}
			}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
			var body io.Reader
			for i, word := range []string{"one", "two", "three"} {
				c.send("%x\r\n%s\r\n", len(word), word)
				if i == 0 {
					_, body = c.head("POST")
				}
				got := make([]byte, len(word))
				if _, err := io.ReadFull(body, got); err != nil || string(got) != strings.ToUpper(word) {
					t.Fatalf("got %q %v", got, err)
				}
			}
			c.send("0\r\n\r\n")
			if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
				t.Errorf("rest = %q %v", rest, err)
			}
			if _, body := c.get("/"); body != "" {
				t.Errorf("next = %q", body)
			}
		})
	}
}

func TestEventsArriveAsTheyAreSent(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			next := make(chan struct{})
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				for i := range 3 {
					_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
					_ = http.NewResponseController(w).Flush()
					<-next
				}
			}))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			_, events := c.head("GET")
			for i := range 3 {
				want := fmt.Sprintf("data: %d\n\n", i)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(events, got); err != nil || string(got) != want {
					t.Fatalf("got %q %v", got, err)
				}
				next <- struct{}{}
			}
		})
	}
}

func TestLargeBodiesPassInBothDirections(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				_, _ = io.Copy(w, r.Body)
			}))
			parts := 2 << 20 // 32 MiB
			if raceEnabled {
				parts = 2 << 17 // the race detector copies word by word
			}
			big := bytes.Repeat([]byte("0123456789abcdef"), parts)
			for _, chunked := range []bool{false, true} {
				c := front.dial()
				go func() {
					if !chunked {
						c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", len(big))
						_, _ = c.Write(big)
						return
					}
					c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
					for part := range bytes.SplitSeq(big, []byte("f0")) {
						c.send("%x\r\n%s\r\n", len(part), part)
						if len(part) > 0 {
							break
						}
					}
					c.send("%x\r\n%s\r\n0\r\n\r\n", len(big), big)
				}()
				res, body := c.answer("POST")
				want := sha256.Sum256(big)
				got := sha256.Sum256([]byte(body[len(body)-len(big):]))
				if res.StatusCode != 200 || got != want {
					t.Errorf("chunked %v: %v, %d bytes", chunked, res.Status, len(body))
				}
			}
		})
	}
}

func TestBodiesOfEverySizePass(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				_, _ = fmt.Fprintf(w, "%x", sha256.Sum256(b))
			}))
			c := front.dial()
			for _, size := range []int{1, 4095, 4096, 4097, 8 << 10, 32 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 100 << 10, 300 << 10} {
				b := bytes.Repeat([]byte("x7"), size/2+1)[:size]
				for _, pieces := range []int{1, 3} {
					c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", size)
					for i := range pieces {
						_, _ = c.Write(b[size*i/pieces : size*(i+1)/pieces])
						time.Sleep(time.Duration(pieces-1) * time.Millisecond)
					}
					if _, body := c.answer("POST"); body != fmt.Sprintf("%x", sha256.Sum256(b)) {
						t.Fatalf("length %d in %d pieces: %q", size, pieces, body)
					}
					c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n")
					for i := range pieces {
						if part := b[size*i/pieces : size*(i+1)/pieces]; len(part) > 0 {
							c.send("%x\r\n%s\r\n", len(part), part)
						}
					}
					c.send("0\r\n\r\n")
					if _, body := c.answer("POST"); body != fmt.Sprintf("%x", sha256.Sum256(b)) {
						t.Fatalf("chunked %d in %d pieces: %q", size, pieces, body)
					}
				}
			}
		})
	}
}

func TestAppRespondsWithoutReadingBody(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, rawApp(t, func(conn net.Conn, r *bufio.Reader) {
				if _, err := readHead(r); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
					_, _ = io.Copy(io.Discard, r)
				}
			}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 10000000\r\n\r\nbegin")
			res, body := c.answer("POST")
			if res.StatusCode != 413 || body != "no" {
				t.Errorf("answer = %v %q", res.Status, body)
			}
			c.closed()
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

func TestContinueComesFromApp(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Expect") == "" {
					t.Error("the app did not see Expect")
				}
				if r.URL.Path == "/no" {
					w.WriteHeader(403)
					return
				}
				echo(w, r)
			}))
			c := front.dial()
			c.send("POST /yes HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 100") || strings.Contains(head, "Shardway") {
				t.Fatalf("interim = %q %v", head, err)
			}
			c.send("hello")
			if _, body := c.answer("POST"); body != "POST /yes hello" {
				t.Errorf("body = %q", body)
			}
			c.send("POST /no HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			if res, _ := c.answer("POST"); res.StatusCode != 403 {
				t.Errorf("answer = %v", res.Status)
			}
			c.closed()
		})
	}
}

func TestInterimResponsesPassInOrder(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(103)
				echo(w, r)
			}))
			c := front.dial()
			c.send("GET /1 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			for i := 1; i <= 2; i++ {
				if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 103") || !strings.Contains(head, "preload") {
					t.Fatalf("interim %d = %q %v", i, head, err)
				}
				if _, body := c.answer("GET"); body != fmt.Sprintf("GET /%d ", i) {
					t.Fatalf("answer %d = %q", i, body)
				}
			}
			c.send("GET /old HTTP/1.0\r\nX-Shard-Key: k\r\n\r\n")
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "GET /old " {
				t.Errorf("HTTP/1.0: %v %q", res.Status, body)
			}
		})
	}
}

func TestTrailersPass(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Sum")
				_, _ = io.Copy(w, r.Body)
				w.Header().Set("X-Sum", r.Trailer.Get("X-In"))
			}))
			c := front.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-In\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-In: 42\r\n\r\n")
			res, body := c.answer("POST")
			if body != "hi" || res.Trailer.Get("X-Sum") != "42" {
				t.Errorf("answer = %q, trailers %v", body, res.Trailer)
			}
		})
	}
}

func TestBodylessResponsesKeepTheirOrder(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/204":
					w.WriteHeader(204)
				case "/304":
					w.Header().Set("ETag", `"x"`)
					w.WriteHeader(304)
				default:
					w.Header().Set("Content-Length", "1000")
					if r.Method != "HEAD" {
						_, _ = w.Write(make([]byte, 1000))
					}
				}
			}))
			c := front.dial()
			for range 2 {
				if res, _ := c.get("/204"); res.StatusCode != 204 {
					t.Errorf("204 = %v", res.Status)
				}
				if res, _ := c.get("/304"); res.StatusCode != 304 || res.Header.Get("ETag") == "" {
					t.Errorf("304 = %v", res.Status)
				}
				c.send("HEAD /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, _ := c.answer("HEAD"); res.ContentLength != 1000 {
					t.Errorf("HEAD declares %d", res.ContentLength)
				}
				if _, body := c.get("/x"); len(body) != 1000 {
					t.Errorf("GET gave %d bytes", len(body))
				}
			}
		})
	}
}
