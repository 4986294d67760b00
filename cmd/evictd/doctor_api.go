package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/doctor"
)

// nodeNameClaim is the node's name in the claims of a token that is bound to a pod.
const nodeNameClaim = "authentication.kubernetes.io/node-name"

// mediaJSON is the format of what is sent and received here.
const mediaJSON = "application/json"

// seenAPI is the API server, with evictd's clients.
type seenAPI struct {
	clients *clients
	core    rest.Interface // for any path; without a rate limit
	seen    *seenHost
	flags   *doctorFlags
}

// seeAPI returns the API server for the checks. It sends nothing yet.
func (f *doctorFlags) seeAPI(c *config.EvictdConfiguration, seen *seenHost) doctor.API {
	a := &seenAPI{seen: seen, flags: f}
	made, err := newClients(&f.whereFlags, nil)
	if err == nil {
		a.clients, a.core = made, made.evicting.Core()
	}
	api := doctor.API{
		NodeName: f.nodeName, Server: a.server, Node: a.node, Account: a.account,
		Rights: a.rights(c), OptIns: a.optIns(c), Policies: a.policies(), Stop: a.stop,
	}
	if c.Disk.Source != config.DiskNode {
		api.Summary = a.summary(c)
	}
	if err != nil { // nothing else is asked then
		api.Server = func(context.Context) (doctor.Server, error) { return doctor.Server{}, err }
	}
	return api
}

// server asks for the version, which every account may read.
func (a *seenAPI) server(ctx context.Context) (doctor.Server, error) {
	answer := doctor.Server{Host: a.clients.config.Host}
	header, body, err := a.getVersion(ctx)
	if err != nil {
		return answer, a.clients.explain(err, "get /version")
	}
	answer.Now = time.Now()
	answer.Date, err = http.ParseTime(header.Get("Date"))
	if err != nil {
		answer.Date = time.Time{} // the check of the clock says so
	}
	var version apiversion.Info
	if err = json.Unmarshal(body, &version); err != nil || version.GitVersion == "" {
		return answer, fmt.Errorf("what answers at %s is not an API server: /version names no version", answer.Host)
	}
	answer.Version = version.GitVersion
	return answer, nil
}

// getVersion needs the answer's header, which client-go's own requests do not return.
func (a *seenAPI) getVersion(ctx context.Context) (header http.Header, body []byte, err error) {
	const longest, patience = 64 << 10, 10 * time.Second
	client, err := rest.HTTPClientFor(a.clients.config)
	if err != nil {
		return nil, nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(a.clients.config)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if body, err = io.ReadAll(io.LimitReader(response.Body, longest)); err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, "", string(body), 0, true)
	}
	return response.Header, body, nil
}

func (a *seenAPI) node(ctx context.Context) (doctor.Node, error) {
	node, err := a.clients.getNode(ctx, a.flags.nodeName)
	if err != nil {
		return doctor.Node{}, err
	}
	both, err := a.seen.node.compareCapacity(node)
	return doctor.Node{Read: both.read, Reported: both.reported, Differ: err == nil && both.differ(), Err: err}, nil
}

func (a *seenAPI) account(ctx context.Context) (doctor.Account, error) {
	return accountOf(ctx, a.core)
}

// accountOf asks the API server whose credentials a client has.
func accountOf(ctx context.Context, core rest.Interface) (doctor.Account, error) {
	var review struct {
		Status struct {
			UserInfo struct {
				Username string              `json:"username"`
				Extra    map[string][]string `json:"extra"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err := send(ctx, core.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", mediaJSON).Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)), &review)
	if err != nil {
		return doctor.Account{}, fmt.Errorf("asking whose credentials these are: %w", err)
	}
	who := doctor.Account{Name: review.Status.UserInfo.Username}
	who.Service = strings.HasPrefix(who.Name, "system:serviceaccount:")
	if claim := review.Status.UserInfo.Extra[nodeNameClaim]; len(claim) > 0 {
		who.Node = claim[0]
	}
	return who, nil
}

// send sends a request and decodes its answer; nil needs none.
func send(ctx context.Context, request *rest.Request, into any) error {
	result := request.SetHeader("Accept", mediaJSON).Do(ctx)
	if err := result.Error(); err != nil {
		return withoutURL(err)
	}
	if into == nil {
		return nil
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// rights are those of deploy/daemonset.yaml that the configuration uses.
func (a *seenAPI) rights(c *config.EvictdConfiguration) []doctor.Right {
	var all []doctor.Right
	for _, n := range shippedNeeds(a.flags.nodeName) {
		for i := range n.rights {
			if n.rights[i].Subresource == "stats" && c.Disk.Source == config.DiskNode {
				continue
			}
			one := a.right(&n.rights[i], n.without)
			one.Grants = n.grants
			all = append(all, one)
		}
	}
	return all
}

// stop reads the ConfigMap that stops evictd.
func (a *seenAPI) stop(ctx context.Context) (doctor.Stop, error) {
	stop := doctor.Stop{ConfigMap: stopNamespace() + "/" + acting.StopName}
	found, err := a.clients.telling.ConfigMaps(stopNamespace()).Get(ctx, acting.StopName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return stop, nil
	}
	if err != nil {
		return stop, a.clients.explain(err, "get ConfigMap "+acting.StopName)
	}
	stop.Exists, stop.Reason = true, found.Data[acting.StopReason]
	return stop, nil
}

func (a *seenAPI) right(right *authorizationv1.ResourceAttributes, without string) doctor.Right {
	return doctor.Right{
		Name: right.Verb + " " + askedOf(right), Without: without,
		Allowed: func(ctx context.Context) (bool, error) { return a.clients.may(ctx, right) },
	}
}

func (a *seenAPI) optIns(c *config.EvictdConfiguration) []doctor.OptIn {
	var all []doctor.OptIn
	for _, n := range a.flags.needs(c) {
		field, _, _ := strings.Cut(n.field, " ")
		one := doctor.OptIn{Field: field, With: n.with, Without: n.without, Grants: n.overlay}
		for i := range n.rights {
			one.Rights = append(one.Rights, a.right(&n.rights[i], n.without))
		}
		all = append(all, one)
	}
	return all
}

// summary measures the pods' disk use as the running evictd does, for no pod in particular.
func (a *seenAPI) summary(c *config.EvictdConfiguration) func(context.Context) (bool, error) {
	return func(ctx context.Context) (unseen bool, err error) {
		disk := newDisk(a.clients, &a.flags.whereFlags, func() *config.EvictdConfiguration { return c }, a.seen.dedicatedImageFS)
		defer disk.close()
		uses, err := disk.Measure(ctx, nil)
		dedicated, _ := a.seen.dedicatedImageFS() // without it there are no uses
		for uid := range uses {
			unseen = unseen || uses[uid].SplitLayers && !dedicated
		}
		return unseen, err
	}
}
