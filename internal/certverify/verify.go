// Package certverify judges the certificates that somebody unknown has shown.
//
// The library tries every certificate that came along as the issuer of every other one, up to
// a hundred signatures for one that it refuses. Whose keys these are is the sender's choice, and
// so is what they cost: an RSA key of 8192 bits with a large exponent is more than a
// millisecond each time. So here no key is used but those of the roots, and of who is vouched
// for by them.
package certverify

import (
	"crypto/x509"
	"slices"
)

// mostBetween is how many certificates between the first one and a root are looked at.
const mostBetween = 8

// Verify is shown[0].Verify, with what there is to use of the others as Intermediates. There
// is at least one.
func Verify(shown []*x509.Certificate, o x509.VerifyOptions) ([][]*x509.Certificate, error) {
	o.Intermediates = between(shown[1:], o)
	return shown[0].Verify(o)
}

// between returns those that a root vouches for, be it by others of them. They come with the
// one last that is nearest to a root, as a rule.
func between(shown []*x509.Certificate, o x509.VerifyOptions) *x509.CertPool {
	o.Intermediates, o.DNSName, o.KeyUsages = x509.NewCertPool(), "", []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	left := slices.Clone(shown[:min(len(shown), mostBetween)])
	slices.Reverse(left)
	for more := true; more; {
		more = false
		left = slices.DeleteFunc(left, func(c *x509.Certificate) bool {
			if _, err := c.Verify(o); err != nil {
				return false
			}
			o.Intermediates.AddCert(c)
			more = true
			return true
		})
	}
	return o.Intermediates
}
