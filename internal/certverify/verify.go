// Package certverify verifies certificate chains of untrusted peers at a bounded cost.
//
// crypto/x509 tries every supplied certificate as the issuer of every other one, with up to
// 100 signature checks for a chain that it finally rejects. The sender chooses the keys and
// therefore the cost: a check with an 8192-bit RSA key and a large exponent takes over a
// millisecond. This package verifies signatures only with the keys of roots, and with keys
// of intermediates that a root has already verified.
//
// Verify is safe for concurrent use. Package secret uses it for the peer port, package
// admin for client certificates.
package certverify

import (
	"crypto/x509"
	"slices"
)

// maxIntermediates is the maximum number of intermediate certificates considered.
const maxIntermediates = 8

// Verify verifies certs[0] as x509.Certificate.Verify does. The other certificates serve as
// intermediates. certs must not be empty, and the field Intermediates of options is replaced.
func Verify(certs []*x509.Certificate, options x509.VerifyOptions) ([][]*x509.Certificate, error) {
	options.Intermediates = intermediates(certs[1:], options)
	return certs[0].Verify(options)
}

// intermediates returns the certificates that lead to a root, directly or through each
// other. Peers usually send the certificate nearest to the root last, so the search begins
// there.
func intermediates(certs []*x509.Certificate, options x509.VerifyOptions) *x509.CertPool {
	options.Intermediates, options.DNSName, options.KeyUsages = x509.NewCertPool(), "", []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	unverified := slices.Clone(certs[:min(len(certs), maxIntermediates)])
	slices.Reverse(unverified)
	for progress := true; progress; {
		progress = false
		unverified = slices.DeleteFunc(unverified, func(c *x509.Certificate) bool {
			if _, err := c.Verify(options); err != nil {
				return false
			}
			options.Intermediates.AddCert(c)
			progress = true
			return true
		})
	}
	return options.Intermediates
}
