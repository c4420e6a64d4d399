package mdns

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestDecodeReturnsWhatEncodeAnnounces(t *testing.T) {
	for _, text := range []string{"10.0.0.5:7946", "[2001:db8::5]:1", "[fe80::1]:65535", "192.0.2.1:1"} {
		addr := netip.MustParseAddrPort(text)
		got, ok := decode(encode(addr, testKey(1)), [][]byte{testKey(2), testKey(1)})
		if !ok || got != addr {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
}

// No host without the secret can name an address, and no response leads to this machine itself.
func TestForgedResponsesAreIgnored(t *testing.T) {
	const addr = "10.0.0.5:7946"
	valid := encode(netip.MustParseAddrPort(addr), testKey(1))
	signed := func(text string) []string { return encodeText(text, testKey(1)) }
	for name, fields := range map[string][]string{
		"no fields":        nil,
		"no code":          valid[:1],
		"another address":  {addrField + "10.6.6.6:7946", valid[1]},
		"another port":     {addrField + "10.0.0.5:7947", valid[1]},
		"another key":      encode(netip.MustParseAddrPort(addr), testKey(2)),
		"empty code":       {valid[0], codeField},
		"part of the code": {valid[0], valid[1][:len(valid[1])-4]},
		"padded code":      {valid[0], valid[1] + "="},
		"line feed":        {valid[0], valid[1] + "\n"},
		"more fields":      append(append([]string{}, valid...), valid...),
		"another order":    {valid[1], valid[0]},
		"another case":     {strings.ToUpper(valid[0]), valid[1]},
		// A node with the secret would not announce these.
		"loopback":      signed("127.0.0.1:7946"),
		"no host":       signed("0.0.0.0:7946"),
		"no port":       signed("10.0.0.5:0"),
		"multicast":     signed("224.0.0.251:5353"),
		"a zone":        signed("[fe80::1%eth0]:7946"),
		"mapped":        signed("[::ffff:10.0.0.5]:7946"),
		"a name":        signed("node.example:7946"),
		"not canonical": signed("[2001:DB8::5]:7946"),
	} {
		if got, ok := decode(fields, [][]byte{testKey(1)}); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, ok := decode(valid, nil); ok {
		t.Error("an answer is valid without a key")
	}
}

// encodeText is encode for any text.
func encodeText(text string, key []byte) []string {
	return []string{addrField + text, codeField + encodeCode(codeOf(text, key))}
}

func FuzzDecode(f *testing.F) {
	valid := encode(netip.MustParseAddrPort("10.0.0.5:7946"), testKey(1))
	f.Add(valid[0], valid[1])
	f.Add("addr=", "mac=")
	f.Add(valid[0], valid[1]+"\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		addr, ok := decode([]string{first, second}, [][]byte{testKey(1)})
		if ok && (encode(addr, testKey(1))[0] != first || encode(addr, testKey(1))[1] != second) {
			t.Errorf("%q %q is read as %v", first, second, addr)
		}
	})
}

func TestResponderRespondsOnlyToQueriesForItsService(t *testing.T) {
	responder := &Responder{Addr: netip.MustParseAddrPort("10.0.0.5:7946"), Keys: func() [][]byte { return [][]byte{testKey(1)} }}
	for _, tt := range []struct {
		name  string
		qtype uint16
		want  bool
	}{
		{"_shardway._tcp.local.", dns.TypePTR, true},
		{"_SHARDWAY._tcp.Local.", dns.TypeANY, true},
		{"_shardway._tcp.local.", dns.TypeA, false},
		{"_services._dns-sd._udp.local.", dns.TypePTR, false},
		{"_http._tcp.local.", dns.TypePTR, false},
		{".", dns.TypeANY, false},
	} {
		records := responder.Records(dns.Question{Name: tt.name, Qtype: tt.qtype, Qclass: dns.ClassINET})
		if (len(records) > 0) != tt.want {
			t.Errorf("%s %d: %v", tt.name, tt.qtype, records)
		}
		for _, record := range records {
			txt, isTXT := record.(*dns.TXT)
			if !isTXT {
				continue
			}
			if addr, ok := decode(txt.Txt, responder.Keys()); !ok || addr != responder.Addr {
				t.Errorf("answer %v", txt)
			}
		}
	}
	responder.Keys = func() [][]byte { return nil }
	if records := responder.Records(dns.Question{Name: "_shardway._tcp.local.", Qtype: dns.TypePTR}); records != nil {
		t.Errorf("answer without a key: %v", records)
	}
}

func TestResponderLimitsResponses(t *testing.T) {
	var responder Responder
	now := time.Unix(100, 0)
	allowed := 0
	for range 1000 {
		if responder.mayRespond(now) {
			allowed++
		}
	}
	if allowed != maxResponsesPerSecond || !responder.mayRespond(now.Add(time.Second)) {
		t.Errorf("%d answers in a second", allowed)
	}
}
