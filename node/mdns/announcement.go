package mdns

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"
)

// The fields of the TXT record of a response.
const (
	addrField = "addr="
	codeField = "mac="
)

// keyLabel separates the key of the code from other uses of a gossip key. It is part of the protocol.
const keyLabel = "multicast DNS: HMAC key of the address"

// codeOf returns the message authentication code of an address.
func codeOf(addr string, gossipKey []byte) []byte {
	key, err := hkdf.Key(sha256.New, gossipKey, nil, keyLabel, sha256.Size)
	if err != nil {
		panic("mdns: derive: " + err.Error()) // only the requested length can be invalid
	}
	code := hmac.New(sha256.New, key)
	_, _ = code.Write([]byte(addr)) // never fails
	return code.Sum(nil)
}

// encode returns the fields of the TXT record that announces addr.
func encode(addr netip.AddrPort, gossipKey []byte) []string {
	text := addr.String()
	return []string{addrField + text, codeField + encodeCode(codeOf(text, gossipKey))}
}

// encodeCode returns the text of a message authentication code.
func encodeCode(code []byte) string { return base64.RawURLEncoding.EncodeToString(code) }

// decode returns the address that the fields of a TXT record announce. ok is false if the fields have another form
// than those of encode, if other nodes cannot connect to the address, or if no gossip key confirms it.
func decode(fields []string, gossipKeys [][]byte) (addr netip.AddrPort, ok bool) {
	if len(fields) != 2 {
		return netip.AddrPort{}, false
	}
	text, hasAddr := strings.CutPrefix(fields[0], addrField)
	code, hasCode := strings.CutPrefix(fields[1], codeField)
	if !hasAddr || !hasCode {
		return netip.AddrPort{}, false
	}
	for _, key := range gossipKeys {
		if hmac.Equal([]byte(code), []byte(encodeCode(codeOf(text, key)))) {
			addr, err := netip.ParseAddrPort(text)
			return addr, err == nil && isReachable(addr) && addr.String() == text
		}
	}
	return netip.AddrPort{}, false
}

// isReachable reports whether other machines may be able to connect to an address. The zone of an address has a meaning
// only on its own machine.
func isReachable(addr netip.AddrPort) bool {
	ip := addr.Addr()
	return addr.Port() != 0 && !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && ip.Zone() == "" && !ip.Is4In6()
}
