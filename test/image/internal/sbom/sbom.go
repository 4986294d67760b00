// Package sbom writes what a Go program is made of as an SPDX 2.3 document: the modules that
// the toolchain recorded in it, and Go's standard library. The same program gives the same bytes.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/evictd/evictd/test/image/internal/program"
)

// unknown is SPDX's word for what is not said.
const unknown = "NOASSERTION"

// Write writes the document of a program. The names of the document and its version are those
// of the release.
func Write(target, binary string, release program.Release) error {
	document, err := describe(binary, release)
	if err != nil {
		return err
	}
	file, err := os.Create(target) //nolint:gosec // the caller names it
	if err != nil {
		return fmt.Errorf("writing the SBOM of %s: %w", binary, err)
	}
	err = json.Write(document, file, json.Indent(" "))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing the SBOM of %s: %w", binary, err)
	}
	return nil
}

func describe(binary string, release program.Release) (*spdx.Document, error) {
	b, err := program.Read(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	sum := hex.EncodeToString(hash[:])
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "evictd " + release.Version + " " + b.Platform(),
		DocumentNamespace: "https://github.com/evictd/evictd/spdx/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "evictd-image"}},
			Created:  release.Created.UTC().Format(time.RFC3339),
		},
	}
	main := module("Package-evictd", debug.Module{Path: b.Info.Main.Path, Version: release.Version})
	main.PrimaryPackagePurpose = "APPLICATION"
	main.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: sum}}
	main.PackageLicenseDeclared = "Apache-2.0"
	add(document, main, "DOCUMENT", "DESCRIBES")
	library := module("Package-stdlib", debug.Module{Path: "stdlib", Version: strings.TrimPrefix(b.Info.GoVersion, "go")})
	add(document, library, main.PackageSPDXIdentifier, "DEPENDS_ON")
	for i, dependency := range b.Info.Deps {
		linked := *dependency
		if dependency.Replace != nil {
			linked = *dependency.Replace
		}
		add(document, module(fmt.Sprintf("Package-%d", i+1), linked), main.PackageSPDXIdentifier, "DEPENDS_ON")
	}
	return document, nil
}

// module returns the package of a Go module. Its sum is not a checksum in SPDX's sense, which is
// that of an archive: it goes into the comment.
func module(id string, m debug.Module) *spdx.Package {
	p := &spdx.Package{
		PackageName: m.Path, PackageSPDXIdentifier: spdx.ElementID(id), PackageVersion: m.Version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown,
		PackageCopyrightText: unknown, PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
			Locator: "pkg:golang/" + strings.ToLower(m.Path) + "@" + cmp.Or(m.Version, "unknown"),
		}},
	}
	if m.Sum != "" {
		p.PackageComment = "go.sum " + m.Sum
	}
	return p
}

func add(document *spdx.Document, p *spdx.Package, from spdx.ElementID, relation string) {
	document.Packages = append(document.Packages, p)
	document.Relationships = append(document.Relationships, &spdx.Relationship{
		RefA:         spdx.DocElementID{ElementRefID: from},
		RefB:         spdx.DocElementID{ElementRefID: p.PackageSPDXIdentifier},
		Relationship: relation,
	})
}
