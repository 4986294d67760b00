package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// unknown is SPDX's word for what is not said.
const unknown = "NOASSERTION"

// writeSBOMs writes the document of each binary, beside the layout.
func writeSBOMs(dir string, r release, binaries []string) error {
	for _, word := range binaries {
		platform, binary, _ := strings.Cut(word, "=")
		list := dir + "-" + named(platform) + ".spdx.json"
		document, err := describe(binary, r)
		var text bytes.Buffer
		if err == nil {
			err = json.Write(document, &text, json.Indent(" "))
		}
		if err == nil {
			err = os.WriteFile(list, text.Bytes(), 0o644) //nolint:gosec // the caller names it, and it is for everybody
		}
		if err != nil {
			return fmt.Errorf("writing the SBOM of %s: %w", binary, err)
		}
		fmt.Printf("%s: the SBOM of %s\n", list, platform)
	}
	return nil
}

// describe says what a Go program is made of, as an SPDX 2.3 document: the modules that the toolchain recorded
// in it, and Go's standard library. The same program gives the same bytes.
func describe(binary string, r release) (*spdx.Document, error) {
	info, platform, err := built(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "evictd " + r.version + " " + platform,
		DocumentNamespace: "https://github.com/evictd/evictd/spdx/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "evictd-image"}},
			Created:  r.created.UTC().Format(time.RFC3339),
		},
	}
	program := module("Package-evictd", debug.Module{Path: info.Main.Path, Version: r.version})
	program.PrimaryPackagePurpose = "APPLICATION"
	program.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: sum}}
	program.PackageLicenseDeclared = "Apache-2.0"
	add(document, program, "DOCUMENT", "DESCRIBES")
	library := module("Package-stdlib", debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
	add(document, library, program.PackageSPDXIdentifier, "DEPENDS_ON")
	for i, dependency := range info.Deps {
		linked := *dependency
		if dependency.Replace != nil {
			linked = *dependency.Replace
		}
		add(document, module(fmt.Sprintf("Package-%d", i+1), linked), program.PackageSPDXIdentifier, "DEPENDS_ON")
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
