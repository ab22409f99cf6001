{{/* A value in TOML. Texts and numbers are written as in JSON. */}}
{{- define "crossload.value" -}}
{{- if kindIs "map" . -}}
{
{{- $separator := " " -}}
{{- range $key, $value := . -}}
{{ $separator }}{{ $key }} = {{ include "crossload.value" $value }}
{{- $separator = ", " -}}
{{- end }} }
{{- else if kindIs "slice" . -}}
[
{{- range $number, $value := . -}}
{{- if $number }}, {{ end }}{{ include "crossload.value" $value }}
{{- end -}}
]
{{- else -}}
{{- toRawJson . -}}
{{- end -}}
{{- end }}

{{/* The keys of a section. A key that is null is left out. */}}
{{- define "crossload.keys" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ include "crossload.value" $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* A configuration file: a map of sections; lists are repeated sections. */}}
{{- define "crossload.toml" -}}
# Made by the chart from its values.
{{- range $section, $content := . }}
{{- if kindIs "slice" $content }}
{{- range $content }}

[[{{ $section }}]]
{{- include "crossload.keys" . }}
{{- end }}
{{- else if $content }}

[{{ $section }}]
{{- include "crossload.keys" $content }}
{{- end }}
{{- end }}
{{- end }}

{{/* What all servers have: (list ROOT PORT ADMIN_PORT). */}}
{{- define "crossload.commonConfig" -}}
{{- $root := index . 0 -}}
{{- $address := $root.Values.listenAddress -}}
server:
  listen: [{{ printf "%s:%d" $address (int (index . 1)) | quote }}]
  admin_listen: {{ printf "%s:%d" $address (int (index . 2)) | quote }}
  {{- if include "crossload.tlsSecret" $root }}
  certificate: /etc/crossload/tls/tls.crt
  key: /etc/crossload/tls/tls.key
  {{- end }}
log:
  format: json
{{- if or $root.Values.trust.certificates $root.Values.trust.vomsdir }}
x509:
  {{- if $root.Values.trust.certificates }}
  trust_directory: /etc/grid-security/certificates
  {{- end }}
  {{- if $root.Values.trust.vomsdir }}
  voms_directory: /etc/grid-security/vomsdir
  {{- end }}
{{- end }}
{{- if $root.Values.tls.trustIssuer }}
trust:
  ca_files: [/etc/crossload/tls/ca.crt]
{{- end }}
{{- end }}

{{/* The bus, for a user of it: (list ROOT USER). */}}
{{- define "crossload.busConfig" -}}
{{- $root := index . 0 -}}
{{- $scheme := ternary "tls" "nats" (not (empty $root.Values.bus.tlsSecret)) -}}
bus:
  servers:
  {{- range default (list (printf "%s://%s:4222" $scheme (include "crossload.serviceHost" (list $root "bus")))) $root.Values.bus.servers }}
    - {{ . }}
  {{- end }}
  {{- if $root.Values.bus.tlsSecret }}
  ca_files: [/etc/crossload/bus-tls/ca.crt]
  {{- else }}
  clear_text: true
  {{- end }}
  user: {{ index . 1 }}
  password_file: /etc/crossload/bus/password
{{- end }}

{{/*
The URLs of hosts at a component's ports, as audiences of tokens: (list ROOT COMPONENT HOSTS). Clients write the port 443,
or leave it out.
*/}}
{{- define "crossload.audiences" -}}
{{- $root := index . 0 -}}
{{- $values := get $root.Values (index . 1) -}}
{{- $scheme := include "crossload.scheme" $root -}}
{{- $ports := list (int $values.port) -}}
{{- if not $values.hostNetwork -}}
{{- $ports = append $ports (int $values.service.httpsPort) -}}
{{- end -}}
{{- $urls := list -}}
{{- range $host := index . 2 -}}
{{- range $ports -}}
{{- $urls = append $urls (printf "%s://%s:%d" $scheme $host .) -}}
{{- if eq . 443 -}}
{{- $urls = append $urls (printf "%s://%s" $scheme $host) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (uniq $urls) -}}
{{- end }}

{{/* A list of the chart with what a section of the given configuration adds: (list OWN CONFIG SECTION KEY). */}}
{{- define "crossload.joined" -}}
{{- $section := default dict (get (index . 1) (index . 2)) -}}
{{- toJson (concat (index . 0) (default list (get $section (index . 3))) | uniq) -}}
{{- end }}

{{/* The configuration of an endpoint as a map in YAML: (list ROOT NUMBER), without a number of all pods. */}}
{{- define "crossload.endpointConfig" -}}
{{- $root := index . 0 -}}
{{- $endpoint := $root.Values.endpoint -}}
{{- $common := include "crossload.commonConfig" (list $root $endpoint.port $endpoint.adminPort) | fromYaml -}}
{{- $own := dict "cluster" (dict "operators" (list "address:127.0.0.1" "address:::1")) -}}
{{- if $root.Values.macaroons.enabled -}}
{{- $_ := set $own "macaroons" (dict "secret_file" "/etc/crossload/secrets/macaroons/secret") -}}
{{- end -}}
{{- $_ := set $own "tokens" (dict "state_directory" "/var/lib/crossload/issuers") -}}
{{- $given := deepCopy $endpoint.config -}}
{{- $hosts := list (include "crossload.serviceHost" (list $root "endpoint")) -}}
{{- if gt (len .) 1 -}}
{{- $url := include "crossload.podUrl" . -}}
{{- $_ := set $common.server "name" $url -}}
{{- $redirector := $root.Values.redirector -}}
{{- $hosts = prepend $hosts (include "crossload.podHost" .) -}}
{{- if $endpoint.publicHosts -}}
{{- $hosts = prepend $hosts (index $endpoint.publicHosts (int (index . 1))) -}}
{{- end -}}
{{- $audiences := include "crossload.audiences" (list $root "endpoint" $hosts) | fromJsonArray -}}
{{- if and $redirector.enabled $redirector.publicHost -}}
{{- $fronts := list $redirector.publicHost (include "crossload.serviceHost" (list $root "redirector")) -}}
{{- $audiences = concat $audiences (include "crossload.audiences" (list $root "redirector" $fronts) | fromJsonArray) -}}
{{- $_ := set $own.tokens "audiences" $audiences -}}
{{- else if $endpoint.publicHosts -}}
{{- $_ := set $own.tokens "audiences" $audiences -}}
{{- end -}}
{{- if $redirector.enabled -}}
{{- range $redirector.networks -}}
{{- $_ := set $own.cluster "redirectors" (append (default list $own.cluster.redirectors) (printf "address:%s" .)) -}}
{{- end -}}
{{- if $redirector.capabilities -}}
{{- $_ := set $own "hand_over" (dict "key_file" "/etc/crossload/secrets/capabilities/key" "accept_as" $url) -}}
{{- end -}}
{{- if $root.Values.bus.enabled -}}
{{- $user := printf "node-%d" (int (index . 1)) -}}
{{- $bus := include "crossload.busConfig" (list $root $user) | fromYaml -}}
{{- $_ := set $bus.bus "name" $user -}}
{{- $_ := merge $own $bus -}}
{{- end -}}
{{- end -}}
{{- else if $endpoint.publicHost -}}
{{- $_ := set $common.server "name" (printf "%s://%s:%d" (include "crossload.scheme" $root) $endpoint.publicHost (int $endpoint.port)) -}}
{{- $hosts = prepend $hosts $endpoint.publicHost -}}
{{- $_ := set $own.tokens "audiences" (include "crossload.audiences" (list $root "endpoint" $hosts) | fromJsonArray) -}}
{{- end -}}
{{/* Without these operators, a pod could not drain itself before it ends. */}}
{{- range $key, $names := pick $own.cluster "operators" "redirectors" -}}
{{- if $given.cluster -}}
{{- $_ := set $given.cluster $key (include "crossload.joined" (list $names $given "cluster" $key) | fromJsonArray) -}}
{{- end -}}
{{- end -}}
{{- $config := mergeOverwrite $common $own $given -}}
{{- range $config.export -}}
{{- if hasKey . "s3" -}}
{{- if and $endpoint.s3.existingSecret (not (hasKey . "s3_secret_key_file")) -}}
{{- $_ := set . "s3_secret_key_file" "/etc/crossload/secrets/s3/secret-key" -}}
{{- $_ := set . "s3_access_key_id" $endpoint.s3.accessKeyId -}}
{{- end -}}
{{- else if not (or (hasKey . "directory") (hasKey . "remote") (hasKey . "remote_hosts")) -}}
{{- $_ := set . "directory" $endpoint.storage.mountPath -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{- define "crossload.redirectorConfig" -}}
{{- $root := . -}}
{{- $redirector := .Values.redirector -}}
{{- $config := include "crossload.commonConfig" (list . $redirector.port $redirector.adminPort) | fromYaml -}}
{{- if $redirector.publicHost -}}
{{- $_ := set $config.server "name" (printf "%s://%s:%d" (include "crossload.scheme" .) $redirector.publicHost (int $redirector.port)) -}}
{{- end -}}
{{- if .Values.macaroons.enabled -}}
{{- $_ := set $config "macaroons" (dict "secret_file" "/etc/crossload/secrets/macaroons/secret") -}}
{{- end -}}
{{- $_ := set $config "tokens" (dict "state_directory" "/var/lib/crossload/issuers") -}}
{{- if $redirector.publicHost -}}
{{- $hosts := list $redirector.publicHost (include "crossload.serviceHost" (list . "redirector")) -}}
{{- $_ := set $config.tokens "audiences" (include "crossload.audiences" (list . "redirector" $hosts) | fromJsonArray) -}}
{{- end -}}
{{- if $redirector.capabilities -}}
{{- $_ := set $config "hand_over" (dict "key_file" "/etc/crossload/secrets/capabilities/key") -}}
{{- $_ := set $config "redirector" (dict "capabilities" true) -}}
{{- end -}}
{{- if .Values.bus.enabled -}}
{{- $_ := merge $config (include "crossload.busConfig" (list . "redirector") | fromYaml) -}}
{{- end -}}
{{- $nodes := list -}}
{{- if .Values.endpoint.enabled -}}
{{- range $number := until (int .Values.endpoint.replicas) -}}
{{- $node := dict "url" (include "crossload.podUrl" (list $root $number)) -}}
{{- if $root.Values.bus.enabled -}}
{{- $_ := set $node "bus_name" (printf "node-%d" $number) -}}
{{- end -}}
{{- if $redirector.nodeTokenSecret -}}
{{- $_ := set $node "token_file" "/etc/crossload/secrets/nodes/token" -}}
{{- end -}}
{{- $nodes = append $nodes $node -}}
{{- end -}}
{{- end -}}
{{- $given := deepCopy $redirector.config -}}
{{- $nodes = concat $nodes (default list $given.node) -}}
{{- $config = mergeOverwrite $config $given -}}
{{- $_ := set $config "node" $nodes -}}
{{- toYaml $config -}}
{{- end }}

{{- define "crossload.queueConfig" -}}
{{- $queue := .Values.queue -}}
{{- $config := include "crossload.commonConfig" (list . $queue.port $queue.adminPort) | fromYaml -}}
{{- $own := dict "listen" $config.server.listen "state_directory" "/var/lib/crossload/queue" -}}
{{- $_ := unset $config.server "listen" -}}
{{- if $queue.publicHost -}}
{{- $_ := set $config.server "name" (printf "%s://%s:%d" (include "crossload.scheme" .) $queue.publicHost (int $queue.port)) -}}
{{- end -}}
{{- $_ := set $config "tokens" (dict "state_directory" "/var/lib/crossload/issuers") -}}
{{- if $queue.database.url -}}
{{- $_ := set $own "database" $queue.database.url -}}
{{- $_ := set $own "key_file" "/etc/crossload/secrets/queue-key/key" -}}
{{- if $queue.database.existingSecret -}}
{{- $_ := set $own "database_password_file" "/etc/crossload/secrets/database/password" -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "queue" $own -}}
{{- toYaml (mergeOverwrite $config (deepCopy $queue.config)) -}}
{{- end }}

{{/*
The sections with keys that take effect at a start only: pods are started anew when one of them changes. Everything else
is taken over by the running server, which watches its files.
*/}}
{{- define "crossload.restartChecksum" -}}
{{- $sections := pick . "server" "log" "queue" "messages" "monitoring" "scitags" "traces" "web" "bus" -}}
{{- toYaml $sections | sha256sum -}}
{{- end }}
