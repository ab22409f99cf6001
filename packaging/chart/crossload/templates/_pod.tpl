{{/* What the pod security standard `restricted` demands, of a pod. */}}
{{- define "crossload.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.user }}
runAsGroup: {{ .Values.podSecurity.group }}
fsGroup: {{ .Values.podSecurity.group }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The same of a container. */}}
{{- define "crossload.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The beginning of a pod: (list ROOT COMPONENT VALUES). */}}
{{- define "crossload.podStart" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include "crossload.serviceAccount" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "crossload.podSecurity" $root | nindent 2 }}
{{- if $values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.affinity }}
affinity:
  {{- toYaml $values.affinity | nindent 2 }}
{{- else if gt (int (default 1 $values.replicas)) 1 }}
affinity:
  podAntiAffinity:
    {{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "crossload.selector" . | fromYaml)) }}
    {{- if $values.hostNetwork }}
    requiredDuringSchedulingIgnoredDuringExecution:
      {{- list $term | toYaml | nindent 6 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      {{- list (dict "weight" 100 "podAffinityTerm" $term) | toYaml | nindent 6 }}
    {{- end }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Image, rights and probes of a server: (list ROOT VALUES). A server that waits for another one is alive. */}}
{{- define "crossload.server" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
image: {{ include "crossload.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  {{- include "crossload.containerSecurity" $root | nindent 2 }}
ports:
  - name: data
    containerPort: {{ $values.port }}
  - name: admin
    containerPort: {{ $values.adminPort }}
startupProbe:
  httpGet: {path: /health, port: admin}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health, port: admin}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /ready, port: admin}
  periodSeconds: 10
  timeoutSeconds: 10
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Where a server finds its files: (list ROOT VALUES OWN), with a map of further secrets by their directory. No mount is a
single file (subPath), so that changes arrive in running pods.
*/}}
{{- define "crossload.mounts" -}}
{{- $root := index . 0 -}}
- name: config
  mountPath: /etc/crossload/config
  readOnly: true
- name: temporary
  mountPath: /tmp
{{- if include "crossload.tlsSecret" $root }}
- name: tls
  mountPath: /etc/crossload/tls
  readOnly: true
{{- end }}
{{- if $root.Values.trust.certificates }}
- name: certificates
  mountPath: /etc/grid-security/certificates
  readOnly: true
{{- end }}
{{- if $root.Values.trust.vomsdir }}
- name: vomsdir
  mountPath: /etc/grid-security/vomsdir
  readOnly: true
{{- end }}
{{- range $directory, $secret := mergeOverwrite (deepCopy (index . 2)) (index . 1).secrets }}
- name: secret-{{ $directory }}
  mountPath: /etc/crossload/secrets/{{ $directory }}
  readOnly: true
{{- end }}
{{- end }}

{{/* The volumes of these mounts: (list ROOT VALUES OWN CONFIGMAP). The group of the pod may read secrets. */}}
{{- define "crossload.volumes" -}}
{{- $root := index . 0 -}}
- name: config
  configMap:
    name: {{ index . 3 }}
- name: temporary
  emptyDir: {}
{{- with include "crossload.tlsSecret" $root }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0400
{{- end }}
{{- with $root.Values.trust.certificates }}
- name: certificates
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.trust.vomsdir }}
- name: vomsdir
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $directory, $secret := mergeOverwrite (deepCopy (index . 2)) (index . 1).secrets }}
- name: secret-{{ $directory }}
  secret:
    secretName: {{ $secret }}
    defaultMode: 0400
{{- end }}
{{- end }}

{{/* A claim: (list NAME VALUES ACCESS_MODES). */}}
{{- define "crossload.claimSpec" -}}
{{- $values := index . 0 -}}
accessModes: {{ toJson (default (list "ReadWriteOnce") $values.accessModes) }}
{{- with $values.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ $values.size }}
{{- end }}

{{/* Secrets of an endpoint beside those of the values, by directory. */}}
{{- define "crossload.endpointSecrets" -}}
{{- $secrets := dict -}}
{{- if .Values.macaroons.enabled -}}
{{- $_ := set $secrets "macaroons" (include "crossload.macaroonSecret" .) -}}
{{- end -}}
{{- if and .Values.redirector.enabled .Values.redirector.capabilities -}}
{{- $_ := set $secrets "capabilities" (include "crossload.capabilitySecret" .) -}}
{{- end -}}
{{- with .Values.endpoint.s3.existingSecret -}}
{{- $_ := set $secrets "s3" . -}}
{{- end -}}
{{- toYaml $secrets -}}
{{- end }}

{{- define "crossload.redirectorSecrets" -}}
{{- $secrets := dict -}}
{{- if .Values.macaroons.enabled -}}
{{- $_ := set $secrets "macaroons" (include "crossload.macaroonSecret" .) -}}
{{- end -}}
{{- if .Values.redirector.capabilities -}}
{{- $_ := set $secrets "capabilities" (include "crossload.capabilitySecret" .) -}}
{{- end -}}
{{- with .Values.redirector.nodeTokenSecret -}}
{{- $_ := set $secrets "nodes" . -}}
{{- end -}}
{{- toYaml $secrets -}}
{{- end }}

{{- define "crossload.queueSecrets" -}}
{{- $secrets := dict -}}
{{- if .Values.queue.database.url -}}
{{- $_ := set $secrets "queue-key" (include "crossload.queueKeySecret" .) -}}
{{- with .Values.queue.database.existingSecret -}}
{{- $_ := set $secrets "database" . -}}
{{- end -}}
{{- end -}}
{{- toYaml $secrets -}}
{{- end }}
